// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace tessera::optim {

/// 1 - beta^step: the sum of the weights in an average over `step` values. `step` is a double or a tensor.
template <class T>
T bias_correction(double beta, const T& step) {
  using std::pow;
  return 1.0 - pow(beta, step);
}

}  // namespace tessera::optim

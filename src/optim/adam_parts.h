// SPDX-License-Identifier: Apache-2.0
// Parts that Adam and its variants have in common.
#pragma once

#include <cmath>

#include "tessera/base/error.h"

namespace tessera::optim {

/// 1 - beta^step: the sum of the weights in an average over `step` values. `step` is a double or a tensor.
template <class T>
T bias_correction(double beta, const T& step) {
  using std::pow;
  return 1.0 - pow(beta, step);
}

/// Throws unless both betas are in [0, 1) and epsilon is not negative.
inline void check_betas_and_epsilon(double beta1, double beta2, double epsilon) {
  for (const double beta : {beta1, beta2}) require(beta >= 0 && beta < 1, "betas must be in [0, 1), got {}", beta);
  require(epsilon >= 0, "epsilon must not be negative, got {}", epsilon);
}

}  // namespace tessera::optim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/functions.h"

namespace tessera {

/// A vector of f64.
inline Tensor f64s(const std::vector<double>& values) {
  return Tensor::from<double>({static_cast<std::int64_t>(values.size())}, values);
}

/// A tensor that requires a gradient, of f32 for float and of f64 for double.
template <class T>
Tensor variable(Dims dims, const std::vector<T>& values) {
  Tensor out = Tensor::from<T>(std::move(dims), values);
  out.set_requires_grad();
  return out;
}

}  // namespace tessera

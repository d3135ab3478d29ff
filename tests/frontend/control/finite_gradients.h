// SPDX-License-Identifier: Apache-2.0
// Gradients of functions of tensors, compared with central differences in f64.
#pragma once

#include <functional>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::testing {

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// An f64 tensor with seeded values in [-1, 1].
Literal seeded_values(const Dims& dims, unsigned seed);

/// The value and the gradients of a scalar function, by backward().
struct Differentiated {
  double value = 0;
  std::vector<std::vector<double>> gradients;
};
Differentiated differentiated(const TensorFunction& function, const std::vector<Literal>& arguments);

/// Expects that the gradients agree with finite differences within 1e-6.
void expect_finite_differences(const TensorFunction& function, const std::vector<Literal>& arguments);

/// Expects that both functions have equal values and gradients within 1e-9.
void expect_equal_functions(const TensorFunction& a, const TensorFunction& b, const std::vector<Literal>& arguments);

}  // namespace tessera::testing

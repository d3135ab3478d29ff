// SPDX-License-Identifier: Apache-2.0
// Compares the gradients of a small program with central differences of its reference evaluation, in f64.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/tensor/literal.h"

namespace tessera::testing {

/// Computes a scalar from the parameters.
using Model = std::function<Value(Builder&, const std::vector<Value>& parameters)>;

inline Type f64(Dims dims) { return Type::array(DType::kF64, std::move(dims)); }

/// Returns a literal of a float type with seeded values in [-1, 1].
Literal seeded(const Type& type, unsigned seed);

/// The sum of all elements.
Value total(Value x);
/// The sum with another weight for each element, so that a test detects a permuted gradient.
Value weighed(Value x);

/// A weighted sum of the gradients of `model` with respect to all float parameters, applied `order` times. Its gradients
/// are derivatives of order `order` + 1 of the model.
Model derivative(Model model, int order);

/// Expects that the program's gradient of every float argument agrees with finite differences.
void expect_gradients(const Model& model, const std::vector<Literal>& arguments);

/// Returns the program that computes the gradients of the model with respect to its first parameter.
Program gradient_program(const Model& model, const std::vector<Type>& types);

}  // namespace tessera::testing

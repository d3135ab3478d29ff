// SPDX-License-Identifier: Apache-2.0
// Compares the gradients of a small program with central differences of its reference evaluation, in f64.
#pragma once

#include <functional>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/tensor/literal.h"

namespace tessera::testing {

/// Makes a scalar from the parameters.
using Model = std::function<Value(Builder&, const std::vector<Value>& parameters)>;

/// A literal of a float type with seeded values in [-1, 1].
Literal seeded(const Type& type, unsigned seed);

/// Expects, for every float argument, that the program's gradient agrees with differences.
void expect_gradients(const Model& model, const std::vector<Literal>& arguments);

/// The program that returns the gradients of the model with respect to its first parameter.
Program gradient_program(const Model& model, const std::vector<Type>& types);

}  // namespace tessera::testing

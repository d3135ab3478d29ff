// SPDX-License-Identifier: Apache-2.0
// Makes the implicit broadcasting of NumPy explicit.
#pragma once

#include <string_view>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// Returns `dim` counted from 0; negative numbers count from the end. Throws an Error if the type does not have the
/// dim.
int checked_dim(const Type& type, int dim);
/// The same, but a scalar has the dims 0 and -1 of a vector of one element, as in PyTorch.
int checked_line_dim(const Type& type, int dim);
/// Returns the dims to which both broadcast. Throws an Error with both shapes if they do not broadcast.
Dims broadcast_dims(const Dims& a, const Dims& b);
/// Broadcasts `x` to `dims`.
Value broadcast_value(Value x, const Dims& dims);

/// Two operands of `function` as values of one type. Numbers get the element type of the tensor. An Autocast scope converts
/// the tensors as the function requires.
struct OperandPair {
  Value lhs;
  Value rhs;
};
OperandPair broadcast_operands(const Operand& lhs, const Operand& rhs, std::string_view function = {});
/// Returns the value of one operand. A number becomes an f32 scalar.
Value operand_value(const Operand& operand);

}  // namespace tessera

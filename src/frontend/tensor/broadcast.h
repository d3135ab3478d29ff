// SPDX-License-Identifier: Apache-2.0
// NumPy broadcasting, made explicit.
#pragma once

#include "tessera/frontend/tensor/functions.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// `dim` from 0, negative ones counted from the end. Error unless the type has it.
int checked_dim(const Type& type, int dim);
/// The dims both broadcast to. Error with both shapes where they do not.
Dims broadcast_dims(const Dims& a, const Dims& b);
/// `x` repeated to `dims` (which its own dims broadcast to).
Value broadcast_value(Value x, const Dims& dims);

/// Two operands as values of one type; numbers take the tensor's element type.
struct OperandPair {
  Value lhs;
  Value rhs;
};
OperandPair broadcast_operands(const Operand& lhs, const Operand& rhs);
/// One operand's value (a number becomes an f32 scalar).
Value operand_value(const Operand& operand);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// dot and reduce.
#pragma once

#include <optional>

#include "tessera/ir/builder.h"

namespace tessera {

struct DotAttributes {
  Dims lhs_batch_dims;
  Dims lhs_contracting_dims;
  Dims rhs_batch_dims;
  Dims rhs_contracting_dims;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("lhs_batch_dims", self.lhs_batch_dims, Presence::kIfNotDefault);
    visit("lhs_contracting_dims", self.lhs_contracting_dims, Presence::kIfNotDefault);
    visit("rhs_batch_dims", self.rhs_batch_dims, Presence::kIfNotDefault);
    visit("rhs_contracting_dims", self.rhs_contracting_dims, Presence::kIfNotDefault);
  }
  friend bool operator==(const DotAttributes&, const DotAttributes&) = default;
};

/// The reduction that a scalar computation with two parameters performs, if it is one of Reduction.
std::optional<Reduction> reduction_of(const Computation& computation);

/// True if a reduction with this computation may combine its elements in another order. HLO requires that the
/// computation is associative, so this is true except for a computation that consists of one non-associative op, such
/// as subtract.
bool may_reassociate(const Computation& computation);
/// The identity of a reduction in an element type: 0, 1, +inf or the largest integer, ….
Literal reduction_identity(Reduction reduction, DType dtype);

namespace ops {
/// The result has the batch dims, the free dims of lhs, then those of rhs. Its element type is that of the operands,
/// or `result` (f32 from bf16).
Value dot(Value lhs, Value rhs, DotAttributes dims, std::optional<DType> result = std::nullopt);
/// The product [.., m, k] x [k, n], which sums over the last dim of lhs and the first dim of rhs.
Value matmul(Value lhs, Value rhs);
/// The scalar computation add, multiply, minimum, … of a reduction; shared within a program.
ComputationId reduction_computation(ProgramBuilder& program, Reduction reduction, DType dtype);
/// Reduces `dims`, starting from the identity of the reduction.
Value reduce(Value x, Reduction reduction, Dims dims);
/// HLO's general form of reduce. Several operands give a tuple.
Value reduce(const std::vector<Value>& operands, const std::vector<Value>& inits, Dims dims, ComputationId computation);
}  // namespace ops
}  // namespace tessera

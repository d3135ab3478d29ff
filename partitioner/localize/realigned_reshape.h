// SPDX-License-Identifier: Apache-2.0
// Reshapes that merge or split dims of which the first is cut unevenly: every device reshapes its tile as it lies, and what then lies
// beyond its border goes to a neighbour.
//
//   f32[5,3]{a,-} -> f32[15]{a}, a=2     tiles of 3 rows are 9 and 6 elements; wanted are 8 and 7: one element moves
#pragma once

#include <optional>
#include <vector>

#include "propagation/factor_sharding.h"
#include "tessera/ir/builder.h"
#include "tessera/ir/op_def.h"
#include "tessera/sharding/placement.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// Dims that hold the same elements on both sides, as one dim.
struct RealignedRun {
  Axes axes;  // that cut it
  DimPlacement before;
  DimPlacement after;
  [[nodiscard]] bool moves() const { return !(before == after); }
};
struct RealignedReshape {
  Sharding result;
  std::vector<RealignedRun> runs;
};

/// The result that the operand's axes give, and what has to move for it; nothing where axes cut other than first dims, where all tiles are
/// even and stay, or where devices would hold nothing.
/// Nothing for other ops than reshapes.
std::optional<RealignedReshape> realigned_reshape(const OpView& view, const Sharding& operand);
/// Of an instruction of a program in which every value has a sharding: nothing unless it is a reshape that is made so.
std::optional<RealignedReshape> realigned_reshape(const Computation& computation, const Instruction& instruction);

/// What one device receives; seconds where links differ.
double realign_cost(const RealignedReshape& reshape, DType dtype, const Topology& topology);

/// `local`: the operand's tile; the result's tile, of the type given.
Value emit_realigned(Builder& builder, std::int64_t& next_channel, const NotesRef& notes, Value local,
                     const RealignedReshape& reshape, const Type& result);

}  // namespace tessera

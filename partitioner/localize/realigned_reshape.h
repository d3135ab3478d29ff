// SPDX-License-Identifier: Apache-2.0
// Reshapes that merge or split dims of which the first is sharded unevenly. Every device reshapes its own tile, and the
// elements that then are beyond the border of its new tile are sent to a neighbour.
//
//   f32[5,3]{a,-} -> f32[15]{a}, a=2     tiles of 3 rows are 9 and 6 elements; required are 8 and 7: one element moves
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
  Axes axes;  // the axes that shard it
  DimPlacement before;
  DimPlacement after;
  [[nodiscard]] bool moves() const { return !(before == after); }
};
struct RealignedReshape {
  Sharding result;
  std::vector<RealignedRun> runs;
};

/// The result sharding that follows from the operand's axes, and the exchanges that it requires. Nullopt for other ops
/// than reshapes, if axes shard other than leading dims, if all tiles are even and unchanged, or if devices would hold
/// nothing.
std::optional<RealignedReshape> realigned_reshape(const OpView& view, const Sharding& operand);
/// For an instruction of a program in which every value has a sharding; nullopt if the result has another sharding.
std::optional<RealignedReshape> realigned_reshape(const Computation& computation, const Instruction& instruction);

/// The bytes that one device receives, or seconds if the links differ.
double realign_cost(const RealignedReshape& reshape, DType dtype, const Topology& topology);

/// `local`: the operand's tile. Returns the result's tile, which has type `result`.
Value emit_realigned(Builder& builder, std::int64_t& next_channel, const NotesRef& notes, Value local,
                     const RealignedReshape& reshape, const Type& result);

}  // namespace tessera

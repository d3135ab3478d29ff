// SPDX-License-Identifier: Apache-2.0
// The arguments of OpDef::localize: the global instruction, the operands' shards on this device, and the shardings. The
// shardings agree with the factors of the op, and are partial only if the op is linear.
#pragma once

#include <functional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// The windows (FactorMap::windows) of a tile along an operand dim. The local operand holds the elements that the
/// windows read. The windows begin `low` positions before the first element of the local operand and end `high`
/// positions after its last. Negative numbers mean that the windows skip elements.
struct LocalWindow {
  int operand = 0;
  int dim = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// The arguments of OpDef::localize.
struct LocalizeContext {
  Builder& builder;                         // the per-device computation
  const OpView& view;                       // global types
  std::vector<Value> operands;              // local
  std::vector<Sharding> operand_shardings;  // one per operand (of its only leaf)
  std::vector<Sharding> result_shardings;   // one per leaf of the result
  std::vector<Type> local_results;          // one per leaf of the result
  NotesRef notes;
  std::vector<ComputationId> called;  // of the op, in the per-device program
  /// The first global index of this device along `dim` of an array with `size` elements there and this sharding, as
  /// an s32 scalar.
  std::function<Value(const Sharding&, int dim, std::int64_t size)> shard_start;
  /// The coordinate of this device over the axes (major to minor), as an s32 scalar.
  std::function<Value(const std::vector<AxisRef>&)> coordinate;
  /// The windows of dims that are sharded along a factor with windows. local_results has the number of elements to
  /// compute there.
  std::vector<LocalWindow> windows{};
  /// Null if the dim is as in the global op.
  [[nodiscard]] const LocalWindow* window(int operand, int dim) const {
    for (const LocalWindow& w : windows)
      if (w.operand == operand && w.dim == dim) return &w;
    return nullptr;
  }

  [[nodiscard]] const Type& local_result() const { return local_results.front(); }
  [[nodiscard]] Value start_of_result(int dim) const {
    return shard_start(result_shardings.front(), dim, view.result.dim(dim));
  }
  [[nodiscard]] Value start_of_operand(int i, int dim) const {
    return shard_start(at(operand_shardings, i), dim, at(view.operands, i).dim(dim));
  }
};

}  // namespace tessera

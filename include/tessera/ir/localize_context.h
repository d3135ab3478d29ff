// SPDX-License-Identifier: Apache-2.0
// What an op's localize function sees: the global instruction, its operands as this device holds them, and where its shard
// lies. The shardings agree with the op's factors and are not partial where the op is not linear.
#pragma once

#include <functional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// An operand dim whose windows (FactorMap::windows) lie on a tile: the local operand holds what the tile's windows read, and
/// they reach `low` positions before its first element and `high` behind its last (negative: they leave some out).
struct LocalWindow {
  int operand = 0;
  int dim = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
};

struct LocalizeContext {
  Builder& builder;                         // the per-device computation
  const OpView& view;                       // global types
  std::vector<Value> operands;              // local
  std::vector<Sharding> operand_shardings;  // one per operand (of its only leaf)
  std::vector<Sharding> result_shardings;   // one per leaf of the result
  std::vector<Type> local_results;          // one per leaf of the result
  NotesRef notes;
  std::vector<ComputationId> called;  // of the op, in the per-device program
  /// This device's first global index along `dim` of an array of `size` there, sharded so: an s32 scalar.
  std::function<Value(const Sharding&, int dim, std::int64_t size)> shard_start;
  /// This device's coordinate over the axes (major to minor): an s32 scalar.
  std::function<Value(const std::vector<AxisRef>&)> coordinate;
  /// Of dims sharded along a factor with windows; local_results hold as many elements there as are to be computed.
  std::vector<LocalWindow> windows{};
  /// Null: the dim is as it stands in the global op.
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

// SPDX-License-Identifier: Apache-2.0
// Around an op whose windows lie over sharded dims: operands grow by what their neighbours hold, what lies beyond the ends is filled
// in, and of the results those that a tile computed too early are dropped.
#pragma once

#include <functional>
#include <optional>

#include "localize/sharded_concatenate.h"
#include "pipeline/leaves.h"
#include "strategy/windows.h"
#include "tessera/ir/localize_context.h"
#include "tessera/partitioner/explain/remedy.h"

namespace tessera {

class WindowEmitter {
 public:
  /// `op`: the global instruction.
  WindowEmitter(LocalizeContext& context, std::int64_t& next_channel, const FactorMap& map, const Instruction& op,
                Strategy strategy)
      : context_(context), next_channel_(next_channel), map_(map), op_(op), strategy_(std::move(strategy)) {}

  /// Before the op: replaces the operands, tells the op of its windows and how many results it has to compute. `source`: the global
  /// instruction that made an operand.
  void widen_operands(const std::function<const Instruction&(int operand)>& source);
  /// Behind the op: brings its results to their shards' sizes.
  void crop_results(LeafValues& results);

 private:
  /// Each device holds all elements along the dim: already, or behind a gather.
  [[nodiscard]] bool is_unsharded(const Halo& halo) const;
  [[nodiscard]] bool is_whole(const Halo& halo) const;
  void exchange(const Halo& halo, const Instruction& source, Value outside);
  void fill(const Halo& halo, Value outside);
  [[nodiscard]] NotesRef notes_of(const Halo& halo, const Instruction& source) const;
  [[nodiscard]] Remedy remedy_of(const Halo& halo, const Instruction& source) const;
  [[nodiscard]] const Mesh& mesh() const { return context_.result_shardings.front().mesh; }
  /// A number that differs by tile.
  Value by_tile(const Axes& axes, const std::vector<std::int64_t>& numbers);

  LocalizeContext& context_;
  std::int64_t& next_channel_;
  const FactorMap& map_;
  const Instruction& op_;
  Strategy strategy_;
  std::vector<Type> wanted_;  // the results' types
};

/// The op as one exchange of parts of its join's values, of which a device holds `shards`; null where that does not pay. `source`: the
/// instruction that made the first value.
std::optional<Value> emit_join(LocalizeContext& context, std::int64_t& next_channel, const ShardedConcatenate& join,
                               const std::vector<Value>& shards, const Instruction& source);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The code around an op whose windows extend over sharded dims: it adds neighbours' elements to operands, fills the
// positions beyond their ends, and drops results that precede the tile.
#pragma once

#include <functional>
#include <optional>

#include "localize/halo_content.h"
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

  /// Called before the op: replaces the operands and sets the op's windows and its number of results. `source`: the
  /// global instruction that computed an operand.
  void widen_operands(const std::function<const Instruction&(int operand)>& source);
  /// Called after the op: reduces its results to the sizes of their shards.
  void crop_results(LeafValues& results);

 private:
  /// Whether each device holds all elements along the dim, without or after a gather.
  [[nodiscard]] bool is_unsharded(const Halo& halo) const;
  [[nodiscard]] bool holds_full_dim(const Halo& halo) const;
  struct WindowLayout {
    reshard::ExchangeLayout layout;
    reshard::NonzeroRows rows;  // only if the op reads zeros beyond the ends of the operand
  };
  /// Replaces the operand by its window. `outside`: the value beyond the ends of an unsharded dim; null if they are
  /// filled later. `reads_zeros`: whether they are then filled with zeros; if so, returns the positions that may differ
  /// from zero.
  reshard::NonzeroRows exchange(const Halo& halo, const Instruction& source, Value outside, bool reads_zeros);
  /// If the op reads zeros beyond the ends of the operand, the layout with which no mask is needed, if there is one.
  [[nodiscard]] WindowLayout layout_of_window(const Halo& halo, const reshard::Exchange& exchange, const Dims& dims,
                                              bool reads_zeros) const;
  void fill(const Halo& halo, Value outside, const reshard::NonzeroRows& rows);
  [[nodiscard]] NotesRef notes_of(const Halo& halo, const Instruction& source) const;
  [[nodiscard]] Remedy remedy_of(const Halo& halo, const Instruction& source) const;
  [[nodiscard]] const Mesh& mesh() const { return context_.result_shardings.front().mesh; }
  /// A number that depends on the tile.
  Value by_tile(const Axes& axes, const std::vector<std::int64_t>& numbers);

  LocalizeContext& context_;
  std::int64_t& next_channel_;
  const FactorMap& map_;
  const Instruction& op_;
  Strategy strategy_;
  std::vector<Type> wanted_;  // the results' types
};

/// Emits the op as one exchange of parts of the values of `join`; null if that is more expensive. `shards`: the shards
/// of these values on a device. `source`: the instruction that computed the first value.
std::optional<Value> emit_join(LocalizeContext& context, std::int64_t& next_channel, const ShardedConcatenate& join,
                               const std::vector<Value>& shards, const Instruction& source);

}  // namespace tessera

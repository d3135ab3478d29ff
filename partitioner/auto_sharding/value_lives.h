// SPDX-License-Identifier: Apache-2.0
// The time in which each value of a program is alive. Time is counted in instructions; those of a called computation
// are at the place of the call.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "propagation/propagation_graph.h"
#include "tessera/ir/program.h"

namespace tessera {

class ValueLives {
 public:
  ValueLives(const Program& program, const PropagationGraph& graph);
  /// [first, last) of the value of a slot, in instructions. Parameters and results of the entry live to the end.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> of(int slot) const {
    return at_slot_[static_cast<std::size_t>(slot)];
  }
  /// False for values that need no memory: constants that are computed where they are read, elementwise results that
  /// one elementwise op reads, and results that take the memory of a parameter.
  [[nodiscard]] bool has_memory(int slot) const { return has_memory_[static_cast<std::size_t>(slot)]; }

 private:
  void visit(ComputationId id);
  void use(const std::vector<int>& slots);

  const Program& program_;
  const PropagationGraph& graph_;
  std::int64_t now_ = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> at_slot_;
  std::vector<bool> has_memory_;
};

}  // namespace tessera

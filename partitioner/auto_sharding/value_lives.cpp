// SPDX-License-Identifier: Apache-2.0
#include "auto_sharding/value_lives.h"

#include <algorithm>

#include "normalize/duplicate_cheap_values.h"
#include "tessera/base/text.h"

namespace tessera {

ValueLives::ValueLives(const Program& program, const PropagationGraph& graph)
    : program_(program),
      graph_(graph),
      at_slot_(graph.slots.size(), {INT64_MAX, 0}),
      has_memory_(graph.slots.size(), false) {
  visit(program.entry);
  const Computation& entry = program.entry_computation();
  const auto& values = at(graph_.leaf_slots, program.entry);
  for (const Id parameter : entry.parameters)
    for (const int slot : at(values, parameter)) at(at_slot_, slot) = {0, now_ + 1};
  use(at(values, entry.root));
  for (const Alias& alias : program.aliases)
    at(has_memory_, at(at(values, entry.root), entry.root_type().leaf_index(alias.output))) = false;
}

void ValueLives::use(const std::vector<int>& slots) {
  for (const int slot : slots) {
    auto& [begin, end] = at(at_slot_, slot);
    begin = std::min(begin, now_);
    end = std::max(end, now_ + 1);
  }
}

void ValueLives::visit(ComputationId id) {
  const Computation& computation = program_[id];
  const auto& values = at(graph_.leaf_slots, id);
  if (values.empty()) return;  // not partitioned: a computation on scalars
  std::vector<int> readers(computation.instructions.size(), 0);
  std::vector<bool> is_read_by_group(computation.instructions.size(), true);
  for (const Instruction& instruction : computation.instructions)
    for (const Id operand : instruction.operands) {
      ++at(readers, operand);
      if (!instruction.op->elementwise) is_read_by_group[static_cast<std::size_t>(operand)] = false;
    }
  for (Id i = 0; i < computation.size(); ++i) {
    const Instruction& instruction = computation[i];
    for (const Id operand : instruction.operands) use(at(values, operand));
    for (const ComputationId callee : instruction.called) visit(callee);
    use(at(values, i));
    const bool is_fused =
        instruction.op->elementwise && at(readers, i) == 1 && is_read_by_group[static_cast<std::size_t>(i)];
    if (!is_fused && !is_rematerializable(computation, instruction))
      for (const int slot : at(values, i)) at(has_memory_, slot) = true;
    ++now_;
  }
}

}  // namespace tessera

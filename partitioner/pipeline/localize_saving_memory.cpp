// SPDX-License-Identifier: Apache-2.0
// A sum that every device along an idle axis would compute can be sharded over that axis and gathered. This exchanges
// fewer bytes, but the source and the gathered result are in memory together, whereas an all-reduce works in place.
//
//   {-} partial{x} -> {-}, y idle:   slice{y}; all_reduce{x}; all_gather{y}   or   all_reduce{x}
#include "localize/localize.h"
#include "normalize/manual.h"
#include "reshard_planning/search.h"
#include "tessera/passes/passes.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

bool reduces_over_idle_axes(const Program& program, const Topology& topology) {
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions) {
      if (instruction.op->role != Role::kCopy || !instruction.sharding || !instruction.type.is_array()) continue;
      if (instruction.frontend_attribute(kManualAxesAttribute) != nullptr) continue;
      const auto& from = (*computation)[instruction.operands[0]].sharding;
      if (!from || !from->front().is_partial()) continue;
      const Sharding& to = instruction.sharding->front();
      if (reshard::uses_idle_axes(plan_reshard(instruction.type, from->front(), to, topology))) return true;
    }
  return false;
}

std::int64_t peak_of(const Program& local) { return peak_bytes(remove_dead_code(merge_duplicates(simplify(local)))); }

}  // namespace

Program localize_saving_memory(const Program& program, LocalizeOptions options) {
  constexpr std::int64_t kLargestCompared = 20'000;  // counting requires a schedule
  constexpr double kTolerance = 1.05;
  Program shared = localize(program, options);
  if (program.instruction_count() > kLargestCompared || !reduces_over_idle_axes(program, options.topology))
    return shared;
  options.idle_axes = false;
  Program plain = localize(program, options);
  const bool more_expensive = static_cast<double>(peak_of(shared)) > kTolerance * static_cast<double>(peak_of(plain));
  return more_expensive ? plain : shared;
}

}  // namespace tessera

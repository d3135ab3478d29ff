// SPDX-License-Identifier: Apache-2.0
#include "tessera/lowering/execution_plan.h"

#include "tessera/base/listed_nodes.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"

namespace tessera {

ExecutionOptions ExecutionOptions::from_environment(int ranks, std::vector<int> nodes) {
  const Options& given = tessera::options();
  ExecutionOptions out;
  out.ranks = ranks;
  out.lowering = LoweringOptions::from_environment();
  out.schedule.fuse = given.flag("TESSERA_FUSE");
  out.schedule.nodes = std::move(nodes);
  out.schedule.overlap = given.flag("TESSERA_OVERLAP") && ranks > 1;
  out.schedule.overlap_memory = given.integer("TESSERA_OVERLAP_MEMORY");
  return out;
}

ExecutionOptions ExecutionOptions::for_plan(int ranks) {
  const bool shares_memory = tessera::options().text("TESSERA_SHARED_MEMORY") == "1";
  return from_environment(ranks, shares_memory ? listed_nodes(ranks) : std::vector<int>{});
}

std::size_t ExecutionOptions::hash() const {
  std::size_t out = hash_mix(lowering.hash(), schedule.fuse ? 1U : 0U);
  out = hash_mix(out, (schedule.look_through_views ? 1U : 0U) + (schedule.overlap ? 2U : 0U));
  return hash_mix(out, static_cast<std::size_t>(schedule.overlap_memory));
}

ExecutionPlan plan_execution(const Program& program, const ExecutionOptions& options) {
  Program lowered = lower(program, options.ranks, options.lowering);
  auto schedule = make_schedule(lowered, options.schedule);
  return {std::move(lowered), std::move(schedule)};
}

}  // namespace tessera

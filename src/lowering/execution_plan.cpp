// SPDX-License-Identifier: Apache-2.0
#include "tessera/lowering/execution_plan.h"

#include <mutex>

#include "tessera/base/listed_nodes.h"
#include "tessera/base/lru_cache.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/base/timeline.h"

namespace tessera {
namespace {

ExecutionPlan plan_with(const Program& program, const ExecutionOptions& options) {
  ExecutionPlan out;
  {
    const TimelineSpan span("compile", "lower");
    out.program = lower(program, options.ranks, options.lowering);
  }
  const TimelineSpan span("compile", "schedule");
  out.schedule = make_schedule(out.program, options.schedule);
  return out;
}

// Gathers of loops run one round early if the memory for overlap and the memory budget suffice.
std::optional<ExecutionPlan> plan_with_prefetch(const Program& program, const ExecutionOptions& options,
                                                const ExecutionPlan& without) {
  ExecutionOptions ahead = options;
  ahead.lowering.prefetch_nodes = options.schedule.nodes;
  ExecutionPlan plan = plan_with(program, ahead);
  ScheduleOptions in_turn = options.schedule;
  in_turn.overlap = false;
  const std::int64_t most = make_schedule(without.program, in_turn)->arena_bytes + options.schedule.overlap_memory;
  const std::int64_t budget = options.lowering.memory_budget;
  const bool fits = plan.schedule->arena_bytes <= most && (budget == 0 || plan.schedule->peak_bytes() <= budget);
  return fits ? std::optional(std::move(plan)) : std::nullopt;
}

ExecutionPlan new_plan(const Program& program, const ExecutionOptions& options) {
  ExecutionPlan plan = plan_with(program, options);
  // Lowering does not change the loops, so the lowered program shows whether a second one differs.
  if (options.schedule.overlap && !program.lowered && prefetch_in_loops(plan.program, options.schedule.nodes))
    if (auto ahead = plan_with_prefetch(program, options, plan)) return *std::move(ahead);
  return plan;
}

// The hash of the parts of a plan that Program::hash() omits: names and sources.
std::size_t text_hash(const Program& program) {
  std::size_t out = hash_text(program.name);
  for (const auto& computation : program.computations) {
    out = hash_mix(out, hash_text(computation->name));
    for (const Instruction& instruction : computation->instructions) {
      out = hash_mix(out, hash_text(instruction.name));
      if (!instruction.notes) continue;
      out = hash_mix(hash_mix(out, hash_text(instruction.notes->source_file)),
                     static_cast<std::size_t>(instruction.notes->source_line));
      out = hash_mix(out, hash_text(instruction.notes->op_name));
    }
  }
  return out;
}

std::size_t hash_of(const Program& program, const ExecutionOptions& options) {
  std::size_t out = hash_mix(hash_mix(program.hash(), text_hash(program)), options.hash());
  out = hash_mix(out, static_cast<std::size_t>(options.ranks));
  for (const int node : options.schedule.nodes) out = hash_mix(out, static_cast<std::size_t>(node));
  return out;
}

// The plans that the process made last. Ranks that are threads plan the same program at the same time, and a dry run
// needs the plan of its step several times.
class RecentPlans {
 public:
  ExecutionPlan plan_for(const Program& program, const ExecutionOptions& options) {
    const std::shared_ptr<Entry> entry = entry_of(hash_of(program, options));
    const std::scoped_lock lock(entry->mutex);  // another thread that needs this plan waits for it
    if (!entry->plan) entry->plan = new_plan(program, options);
    return *entry->plan;
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::optional<ExecutionPlan> plan;
  };

  std::shared_ptr<Entry> entry_of(std::size_t hash) {
    constexpr std::size_t kMostPlans = 4;
    const std::scoped_lock lock(mutex_);
    if (const auto* known = entries_.find(hash)) return *known;
    auto entry = std::make_shared<Entry>();
    entries_.insert(hash, entry, kMostPlans);
    return entry;
  }

  std::mutex mutex_;
  LruCache<std::size_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace

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
  out = hash_mix(out,
                 (schedule.look_through_views ? 1U : 0U) + (schedule.overlap ? 2U : 0U) + (schedule.reorder ? 4U : 0U));
  out = hash_mix(out, static_cast<std::size_t>(schedule.overlapped_bytes));
  return hash_mix(out, static_cast<std::size_t>(schedule.overlap_memory));
}

ExecutionPlan plan_execution(const Program& program, const ExecutionOptions& options) {
  static RecentPlans plans;
  return plans.plan_for(program, options);
}

}  // namespace tessera

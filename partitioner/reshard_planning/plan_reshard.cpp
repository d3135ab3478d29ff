// SPDX-License-Identifier: Apache-2.0
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>

#include "reshard_planning/exchange_plan.h"
#include "reshard_planning/search.h"
#include "tessera/base/error.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using reshard::Move;
using reshard::Space;

ReshardPlan plan_between(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology);

std::vector<AxisRef> step_axes(const Space& space, const Move& move) { return space.axes(move.axes); }

// The axes that a slice adds, dim by dim.
std::vector<AxisRef> gained_axes(const std::vector<DimPlacement>& before, const ReshardStep& step) {
  std::vector<AxisRef> out;
  for (int d = 0; d < isize(before); ++d) {
    const auto axes = reshard::minor_axes(at(step.after.dims, d).axes, at(before, d).tiles);
    out.insert(out.end(), axes.begin(), axes.end());
  }
  return merged_axes(out);
}

// Merges consecutive slices into one step, and drops changes of device order that exchange nothing.
void append_moves(ReshardPlan& plan, const Space& space, const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    if (move.kind == StepKind::kPermute && move.collectives == 0) continue;
    ReshardStep step{move.kind,
                     move.slot < 0 ? -1 : at(space.dims, move.slot),
                     move.to_slot < 0 ? -1 : at(space.dims, move.to_slot),
                     step_axes(space, move),
                     space.sharding(move.after),
                     space.placement(move.after),
                     move.bytes,
                     move.collectives,
                     move.peak,
                     reshard::seconds_of(space, move)};
    const bool joins =
        !plan.steps.empty() && step.kind == StepKind::kSlice && plan.steps.back().kind == StepKind::kSlice;
    if (joins) {
      if (plan.steps.back().dim != step.dim) step.dim = -1;
      plan.steps.pop_back();
      step.axes = gained_axes(plan.steps.empty() ? space.placement(space.start) : plan.steps.back().tiles, step);
    }
    plan.steps.push_back(std::move(step));
  }
}

void append_plan(ReshardPlan& plan, ReshardPlan more) {
  for (ReshardStep& step : more.steps) plan.steps.push_back(std::move(step));
}

ReshardStep free_step(const Type& global, StepKind kind, const Sharding& after) {
  return {kind, -1, -1, after.partial, after, placement_of(global, after).dims, 0, 0, 2 * global.byte_size()};
}

// ---- placements without common axes ---------------------------------------------------------------------------------

double cost_of(const ReshardPlan& plan, const Topology& topology) {
  return topology.is_uniform() ? static_cast<double>(plan.bytes()) : plan.seconds();
}

// The time of a step whose groups may include devices along any axis.
double seconds_anywhere(const Mesh& mesh, const Topology& topology, const ReshardStep& step) {
  if (topology.is_uniform() || step.collectives == 0) return 0;
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh.axes())
    if (axis.size > 1) names.push_back(axis.name);
  return exchange_seconds(topology.slowest(names), step.collectives * messages_of(step.kind, mesh.device_count()),
                          step.bytes);
}

ReshardStep intersect_step(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
  const Placement before = placement_of(global, from);
  const Placement after = placement_of(global, to);
  const auto exchange = reshard::exchange_between(before, after);
  ReshardStep step{StepKind::kIntersect,
                   -1,
                   -1,
                   {},
                   to,
                   after.dims,
                   exchange.elements() * dtype_size(global.dtype()),
                   exchange.permutes(),
                   shard_type(global, from).byte_size() + shard_type(global, to).byte_size()};
  step.seconds = seconds_anywhere(from.mesh, topology, step);
  return step;
}

// The shardings of the source after its reduction: unchanged dims, or scattered over one dim.
std::vector<Sharding> reduced_forms(const Sharding& from) {
  std::vector<Sharding> out{from.without_partial()};
  if (!from.is_partial()) return out;
  for (int d = 0; d < from.ndim(); ++d) {
    Sharding scattered = from.without_partial();
    auto& axes = at(scattered.dims, d).axes;
    axes.insert(axes.end(), from.partial.begin(), from.partial.end());
    out.push_back(std::move(scattered));
  }
  return out;
}

// Reshards through the complete array or by exchanging pieces over device lists, whichever costs less.
ReshardPlan plan_across(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
  constexpr std::int64_t kMaxDevices = 64;
  const Sharding settled = to.without_partial();
  ReshardPlan best{global, from, to, {}};
  append_plan(best, plan_between(global, from, Sharding::replicated(from.mesh, global.ndim()), topology));
  append_plan(best, plan_between(global, Sharding::replicated(to.mesh, global.ndim()), settled, topology));
  for (const Sharding& reduced : reduced_forms(from)) {
    if (from.mesh.device_count() > kMaxDevices) break;
    ReshardPlan plan{global, from, to, {}};
    append_plan(plan, plan_between(global, from, reduced, topology));
    plan.steps.push_back(intersect_step(global, reduced, settled, topology));
    if (cost_of(plan, topology) < cost_of(best, topology)) best = std::move(plan);
  }
  if (to.is_partial()) append_plan(best, plan_between(global, settled, to, topology));
  return best;
}

// ---- maximal --------------------------------------------------------------------------------------------------------

std::vector<AxisRef> all_axes(const Mesh& mesh) {
  std::vector<AxisRef> axes;
  for (int a = 0; a < mesh.axis_count(); ++a)
    if (mesh.full_axis(a).size > 1) axes.push_back(mesh.full_axis(a));
  return axes;
}

// One device contributes the value, the others the identity, to a sum over all devices.
ReshardPlan plan_from_maximal(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
  ReshardPlan plan{global, from, to, {}};
  if (to.kind == Sharding::Kind::kMaximal) {
    if (from.device == to.device) return plan;
    plan.steps.push_back(free_step(global, StepKind::kPermute, to));
    plan.steps.back().bytes = global.byte_size();
    plan.steps.back().collectives = 1;
    plan.steps.back().seconds = seconds_anywhere(to.mesh, topology, plan.steps.back());
    return plan;
  }
  Sharding unreduced = Sharding::replicated(to.mesh, global.ndim());
  unreduced.partial = all_axes(to.mesh);
  unreduced.reduction = to.is_partial()                  ? to.reduction
                        : global.dtype() == DType::kPred ? Reduction::kOr
                                                         : Reduction::kSum;
  plan.steps.push_back(free_step(global, StepKind::kPartialize, unreduced));
  append_plan(plan, plan_between(global, unreduced, to, topology));
  return plan;
}

ReshardPlan plan_to_maximal(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
  ReshardPlan plan = plan_between(global, from, Sharding::replicated(from.mesh, global.ndim()), topology);
  plan.to = to;
  plan.steps.push_back(free_step(global, StepKind::kSlice, to));
  return plan;
}

// ---- the choice -----------------------------------------------------------------------------------------------------

ReshardPlan plan_between(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
  ReshardPlan plan{global, from, to, {}};
  if (same_placement(global, from, to)) return plan;
  // A replicated value has the same placement on every mesh.
  const Sharding source = from.is_replicated() ? Sharding::replicated(to.mesh, global.ndim()) : from;
  const Sharding target = to.is_replicated() ? Sharding::replicated(from.mesh, global.ndim()) : to;
  if (const auto space = reshard::make_space(global, source, target, topology)) {
    append_moves(plan, *space, reshard::find_moves(*space));
    return plan;
  }
  ensure(!from.is_replicated() && !to.is_replicated(), "no axes to reshard {} from {} to {}", global, from, to);
  return plan_across(global, from, to, topology);
}

bool is_manual(const Sharding& sharding) {
  return sharding.kind == Sharding::Kind::kManual || !sharding.manual.empty();
}

// An unknown sharding counts as replicated, and a replicated value belongs to every mesh.
Sharding on_mesh(const Type& global, const Sharding& sharding, const Sharding& other) {
  const bool is_replicated = sharding.kind == Sharding::Kind::kUnknown || sharding.is_replicated();
  if (!is_replicated) return sharding.closed();
  const bool fits = sharding.mesh.device_count() == other.mesh.device_count();
  return Sharding::replicated(fits && sharding.is_tiled() ? sharding.mesh : other.mesh, global.ndim());
}

ReshardPlan make_plan(const Type& global, const Sharding& from_given, const Sharding& to_given,
                      const Topology& topology) {
  require(global.is_array(), "cannot reshard {}: only arrays have shards", global);
  check_sharding(global, from_given);
  check_sharding(global, to_given);
  const Sharding from = on_mesh(global, from_given, to_given);
  const Sharding to = on_mesh(global, to_given, from_given);
  if (is_manual(from) || is_manual(to)) {
    require(
        from.kind == to.kind && from.mesh == to.mesh && from.manual == to.manual,
        "cannot reshard {} from {} to {}: a manual value changes through SPMDFullToShardShape or SPMDShardToFullShape",
        global, from, to);
  }
  require(from.mesh.device_count() == to.mesh.device_count(),
          "cannot reshard {} from {} of {} to {} of {}: the meshes have {} and {} devices", global, from, from.mesh, to,
          to.mesh, from.mesh.device_count(), to.mesh.device_count());
  ReshardPlan plan = from.kind == Sharding::Kind::kMaximal ? plan_from_maximal(global, from, to, topology)
                     : to.kind == Sharding::Kind::kMaximal ? plan_to_maximal(global, from, to, topology)
                                                           : plan_between(global, from, to, topology);
  plan.from = from;
  plan.to = to;
  return plan;
}

// The plans of a rank. Programs request the same few plans repeatedly.
class PlanCache {
 public:
  const ReshardPlan& plan(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
    const auto key = hash_mix(hash_mix(hash_mix(global.hash(), from.hash()), to.hash()), topology.hash());
    for (const Entry& entry : entries_[key])
      if (entry.from == from && entry.to == to && entry.plan->global == global && entry.topology == topology)
        return *entry.plan;
    if (++count_ > kMostEntries) {
      entries_.clear();
      count_ = 1;
    }
    auto plan = std::make_shared<const ReshardPlan>(make_plan(global, from, to, topology));
    entries_[key].push_back({from, to, topology, plan});
    return *plan;
  }

 private:
  static constexpr int kMostEntries = 1 << 14;
  struct Entry {
    Sharding from;
    Sharding to;
    Topology topology;
    std::shared_ptr<const ReshardPlan> plan;
  };
  boost::unordered_flat_map<std::size_t, std::vector<Entry>> entries_;
  int count_ = 0;
};

// "0->1", "0", "0,1->2": the dims that lose tiles and those that gain tiles.
std::string dims_text(const std::vector<DimPlacement>& before, const std::vector<DimPlacement>& after) {
  std::vector<std::int64_t> lose;
  std::vector<std::int64_t> gain;
  for (int d = 0; d < isize(after); ++d) {
    if (at(after, d).tiles < at(before, d).tiles) lose.push_back(d);
    if (at(after, d).tiles > at(before, d).tiles) gain.push_back(d);
  }
  if (lose.empty() && gain.empty()) return "";
  if (lose.empty()) return fmt::format("({})", fmt::join(gain, ","));
  if (gain.empty()) return fmt::format("({})", fmt::join(lose, ","));
  return fmt::format("({}->{})", fmt::join(lose, ","), fmt::join(gain, ","));
}

}  // namespace

bool reshard::uses_idle_axes(const ReshardPlan& plan) {
  std::vector<AxisRef> used = plan.from.used_axes();
  for (const AxisRef& axis : plan.to.used_axes()) used.push_back(axis);
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const ReshardStep& step) {
    return step.kind == StepKind::kSlice && std::any_of(step.axes.begin(), step.axes.end(),
                                                        [&](const AxisRef& axis) { return !overlaps_any(used, axis); });
  });
}

ReshardPlan reshard::plan_without_idle_axes(const Type& global, const Sharding& from, const Sharding& to,
                                            const Topology& topology) {
  ReshardPlan plan = plan_reshard(global, from, to, topology);
  if (!uses_idle_axes(plan) || !plan.from.is_tiled() || !plan.to.is_tiled()) return plan;
  auto space = make_space(global, plan.from, plan.to, topology);
  if (!space) return plan;
  space->idle_units = false;
  plan.steps.clear();
  append_moves(plan, *space, find_moves(*space));
  return plan;
}

std::string_view step_name(StepKind kind) {
  switch (kind) {
    case StepKind::kSlice: return "slice";
    case StepKind::kAllGather: return "all_gather";
    case StepKind::kAllToAll: return "all_to_all";
    case StepKind::kPermute: return "permute";
    case StepKind::kReduceScatter: return "reduce_scatter";
    case StepKind::kAllReduce: return "all_reduce";
    case StepKind::kRealign: return "realign";
    case StepKind::kPartialize: return "partialize";
    case StepKind::kIntersect: return "intersect";
  }
  throw InternalError("a step of no kind");
}

std::int64_t ReshardPlan::bytes() const {
  std::int64_t sum = 0;
  for (const ReshardStep& step : steps) sum += step.bytes;
  return sum;
}

std::int64_t ReshardPlan::peak() const {
  std::int64_t most = 0;
  for (const ReshardStep& step : steps) most = std::max(most, step.peak);
  return most;
}

double ReshardPlan::seconds() const {
  double sum = 0;
  for (const ReshardStep& step : steps) sum += step.seconds;
  return sum;
}

int ReshardPlan::collectives() const {
  int count = 0;
  for (const ReshardStep& step : steps) count += step.collectives;
  return count;
}

std::string ReshardPlan::str() const {
  if (steps.empty()) return "nothing";
  std::vector<std::string> parts;
  std::vector<DimPlacement> before = placement_of(global, from).dims;
  for (const ReshardStep& step : steps) {
    std::string text(step_name(step.kind));
    std::vector<std::string> axes;
    for (const AxisRef& axis : step.axes) axes.push_back(step.after.mesh.axis_text(axis));
    if (!axes.empty()) text += fmt::format("{{{}}}", fmt::join(axes, "+"));
    text += dims_text(before, step.tiles);
    if (step.kind == StepKind::kRealign) text += fmt::format("({})", step.dim);
    if (step.collectives > 1) text += fmt::format(" x{}", step.collectives);
    if (step.bytes > 0) text += fmt::format(" {} B", step.bytes);
    parts.push_back(std::move(text));
    before = step.tiles;
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::int64_t messages_of(StepKind kind, std::int64_t group) {
  switch (kind) {
    case StepKind::kSlice:
    case StepKind::kPartialize: return 0;
    case StepKind::kAllReduce: return 2 * (group - 1);
    case StepKind::kAllGather:
    case StepKind::kReduceScatter:
    case StepKind::kAllToAll: return group - 1;
    case StepKind::kPermute:
    case StepKind::kRealign:
    case StepKind::kIntersect: break;
  }
  return 1;
}

double exchange_seconds(const Link& link, std::int64_t messages, std::int64_t bytes) {
  return static_cast<double>(messages) * link.latency_seconds + static_cast<double>(bytes) / link.bytes_per_second;
}

ReshardPlan plan_reshard(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
  return RankContext::current().get<PlanCache>().plan(global, from, to, topology);
}

double reshard_cost(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
  return cost_of(RankContext::current().get<PlanCache>().plan(global, from, to, topology), topology);
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "strategy/op_decisions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "localize/realigned_reshape.h"
#include "reshard_insertion/partial_operands.h"
#include "strategy/strategy_cost.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

void add_partial(Sharding& result, const PartialChoice& partial) {
  if (partial.axes.empty()) return;
  result.partial.insert(result.partial.end(), partial.axes.begin(), partial.axes.end());
  std::sort(result.partial.begin(), result.partial.end());
  result.partial = merged_axes(result.partial);
  result.reduction = partial.reduction;
}

// One operand of a product may stay partial, so that the result is summed instead of the operand. That can save bytes,
// but then the axes of the sum do not divide the work. The modelled time decides.
bool is_worth_its_work(const Mesh& mesh, const OpRequest& request, const PartialChoice& partial,
                       const StrategyRequest& deferred, Strategies& strategies) {
  const FactorMap& map = *request.signature.map;
  if (std::count(partial.operand_is_partial.begin(), partial.operand_is_partial.end(), true) != 1 ||
      isize(map.operands) < 2 || isize(map.results) != 1)
    return true;
  const Strategy& with = strategies.choose(deferred);
  Sharding unreduced = computed_sharding(mesh, map, 0, with);
  add_partial(unreduced, partial);
  StrategyRequest summed_first = deferred;
  summed_first.reserved.clear();
  const Strategy& without = strategies.choose(summed_first);
  return strategy_seconds(deferred, with, unreduced, strategies.cost()) <=
         strategy_seconds(summed_first, without, computed_sharding(mesh, map, 0, without), strategies.cost());
}

// The cost of resharding the operand of a reshape and, if propagation requires a sharding of the result, also the
// result.
double moved_for(const OpRequest& request, double operand, const Sharding& made, const CostModel& cost) {
  const Sharding required = request.required->front();
  const bool is_free =
      !required.dims.empty() && std::all_of(required.dims.begin(), required.dims.end(),
                                            [](const DimSharding& dim) { return dim.open && dim.axes.empty(); });
  return is_free ? operand
                 : operand + reshard_cost(request.signature.view.result, made, required.closed(), cost.machine.links());
}

// A reshape of uneven tiles may exchange elements at tile borders instead of resharding the complete array.
void realign(const OpRequest& request, OpDecision& decision, const CostModel& cost) {
  const OpView& view = request.signature.view;
  if (request.operands.empty() || request.rematerialized.front() || request.operands.front()->empty()) return;
  const Sharding& operand = request.operands.front()->front();
  const auto reshape = realigned_reshape(view, operand);
  if (!reshape) return;
  const double realigned =
      moved_for(request, realign_cost(*reshape, view.result.dtype(), cost.machine.links()), reshape->result, cost);
  const double moved =
      moved_for(request, reshard_cost(view.operands.front(), operand, decision.needed.front(), cost.machine.links()),
                decision.results->front(), cost);
  if (realigned >= moved) return;
  decision.needed.front() = operand;
  decision.results = make_sharding(reshape->result);
}

struct Asked {
  StrategyRequest request;
  PartialChoice partial;
};

Asked asked_of(const Mesh& mesh, const OpRequest& request, Strategies& strategies) {
  const FactorMap& map = *request.signature.map;
  std::vector<Sharding> operands;
  for (const ShardingRef& operand : request.operands) operands.push_back(operand->front());
  PartialChoice partial = choose_partial(request.signature.view, operands, mesh, request.result_may_stay_partial);
  StrategyRequest asked{request.signature.view, map, mesh, operands, *request.required, *request.found, partial.axes,
                        request.rematerialized};
  asked.manual = request.manual;
  for (const auto& there : request.copies) {
    auto& copies = asked.copies.emplace_back();
    for (const ShardingRef& sharding : there) copies.push_back(sharding->front());
  }
  if (!partial.axes.empty() && !is_worth_its_work(mesh, request, partial, asked, strategies)) {
    partial = {{}, Reduction::kSum, std::vector<bool>(operands.size(), false)};
    asked.reserved.clear();
  }
  return {std::move(asked), std::move(partial)};
}

// The shardings of the operands, without partial axes.
std::vector<Sharding> needed_for(const StrategyRequest& asked, const Strategy& strategy, const CostModel& cost) {
  std::vector<Sharding> out;
  const auto types = operand_leaves(asked.view);
  for (int i = 0; i < isize(asked.operands); ++i) {
    Sharding& needed = out.emplace_back();
    if (at(types, i).is_array()) needed = needed_of(asked, i, at(types, i), strategy, cost);
  }
  return out;
}

OpDecision decision_of(const Mesh& mesh, const OpRequest& request, Strategies& strategies) {
  const FactorMap& map = *request.signature.map;
  const auto [asked, partial] = asked_of(mesh, request, strategies);
  const Strategy& strategy = strategies.choose(asked);
  OpDecision out{needed_for(asked, strategy, strategies.cost()), nullptr};
  const auto types = operand_leaves(request.signature.view);
  for (int i = 0; i < isize(request.operands); ++i) {
    if (!at(types, i).is_array() || !at(partial.operand_is_partial, i)) continue;
    at(out.needed, i).partial = partial.axes;
    at(out.needed, i).reduction = partial.reduction;
  }
  Shardings results;
  for (int i = 0; i < isize(map.results); ++i) {
    results.push_back(computed_sharding(mesh, map, i, strategy));
    add_partial(results.back(), partial);
  }
  out.results = make_shardings(std::move(results));
  realign(request, out, strategies.cost());
  return out;
}

}  // namespace

const OpDecision& OpDecisions::decide(const Mesh& mesh, const OpRequest& request, SharedShardings& shardings) {
  key_ = {request.signature.id, request.result_may_stay_partial ? 1 : 0, shardings.id_of(request.required),
          shardings.id_of(request.found)};
  for (const ShardingRef& operand : request.operands) key_.push_back(shardings.id_of(operand));
  for (const bool made : request.rematerialized) key_.push_back(made ? 1 : 0);
  for (const auto& there : request.copies) {
    key_.push_back(-isize(there));
    for (const ShardingRef& sharding : there) key_.push_back(shardings.id_of(sharding));
  }
  for (const AxisRef& axis : request.manual)
    for (const auto part : {std::int64_t{axis.axis}, axis.pre, axis.size}) key_.push_back(static_cast<int>(part));
  if (const auto known = known_.find(key_); known != known_.end()) return known->second;
  OpDecision decision = decision_of(mesh, request, strategies_);
  decision.results = shardings.shared(decision.results);
  return known_.emplace(key_, std::move(decision)).first->second;
}

namespace {

// What the next best strategy costs more, in words.
std::string difference_text(const NextStrategy& next, bool counts_bytes) {
  constexpr double kMilliseconds = 1e3;
  if (!counts_bytes) return fmt::format("takes {:.6g} ms more (modelled)", kMilliseconds * next.seconds);
  const auto bytes = static_cast<std::int64_t>(next.bytes);
  const std::string moved = bytes == 0  ? "costs as many bytes"
                            : bytes > 0 ? fmt::format("costs {} bytes more", bytes)
                                        : fmt::format("costs {} bytes less", -bytes);
  return next.work > 0 ? fmt::format("{} and {:.6g} operations more per device", moved, next.work) : moved;
}

}  // namespace

std::string OpDecisions::next_best(const Mesh& mesh, const OpRequest& request, const OpDecision& decision) {
  const auto [asked, partial] = asked_of(mesh, request, strategies_);
  const CostModel& cost = strategies_.cost();
  const auto next = next_strategy(asked, cost);
  const auto same_dims = [](const Sharding& a, const Sharding& b) { return a.dims == b.dims; };
  const auto chosen = next ? needed_for(asked, next->best, cost) : std::vector<Sharding>();
  if (!next || !std::equal(chosen.begin(), chosen.end(), decision.needed.begin(), decision.needed.end(), same_dims))
    return "";
  std::vector<std::string> operands;
  for (const Sharding& needed : needed_for(asked, next->next, cost)) operands.push_back(needed.str());
  return fmt::format("operand{} {}: {}", operands.size() == 1 ? "" : "s", fmt::join(operands, ", "),
                     difference_text(*next, cost.machine.links().is_uniform()));
}

void DecisionMemo::compare(const Mesh& mesh, OpRequest request, const OpDecision& decision) {
  if (!differs_with_least_work) differs_with_least_work = !(least_work_.decide(mesh, request, shardings) == decision);
  if (differs_without_copies || request.copies.empty()) return;
  request.copies.clear();
  differs_without_copies = !(balanced_.decide(mesh, request, shardings) == decision);
}

void DecisionMemo::compare_later(const Mesh& mesh, const OpRequest& request, const OpDecision& decision) {
  if (!differs_with_later_copies) differs_with_later_copies = !(balanced_.decide(mesh, request, shardings) == decision);
}

}  // namespace tessera

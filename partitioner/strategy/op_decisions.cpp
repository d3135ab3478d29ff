// SPDX-License-Identifier: Apache-2.0
#include "strategy/op_decisions.h"

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
  const double borders =
      moved_for(request, realign_cost(*reshape, view.result.dtype(), cost.machine.links()), reshape->result, cost);
  const double moved =
      moved_for(request, reshard_cost(view.operands.front(), operand, decision.needed.front(), cost.machine.links()),
                decision.results->front(), cost);
  if (borders >= moved) return;
  decision.needed.front() = operand;
  decision.results = make_sharding(reshape->result);
}

OpDecision decision_of(const Mesh& mesh, const OpRequest& request, Strategies& strategies) {
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
  const Strategy& strategy = strategies.choose(asked);
  OpDecision out;
  const auto types = operand_leaves(request.signature.view);
  for (int i = 0; i < isize(request.operands); ++i) {
    Sharding& needed = out.needed.emplace_back();
    if (!at(types, i).is_array()) continue;
    needed = needed_of(asked, i, at(types, i), strategy, strategies.cost());
    if (!at(partial.operand_is_partial, i)) continue;
    needed.partial = partial.axes;
    needed.reduction = partial.reduction;
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

void DecisionMemo::compare(const Mesh& mesh, OpRequest request, const OpDecision& decision) {
  if (!differs_with_least_work) differs_with_least_work = !(least_work_.decide(mesh, request, shardings) == decision);
  if (differs_without_copies || request.copies.empty()) return;
  request.copies.clear();
  differs_without_copies = !(balanced_.decide(mesh, request, shardings) == decision);
}

}  // namespace tessera

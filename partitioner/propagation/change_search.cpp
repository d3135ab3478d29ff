// SPDX-License-Identifier: Apache-2.0
#include "propagation/change_search.h"

#include <algorithm>

#include "explain/explain.h"
#include "normalize/duplicate_cheap_values.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

using Slots = std::vector<PropagationSlot>;

// The factors of a slot at an edge; null if the edge does not have it.
const TensorFactors* factors_at(const PropagationEdge& edge, int slot) {
  for (int i = 0; i < isize(edge.operands); ++i)
    if (at(edge.operands, i) == slot) return &at(edge.map->operands, i);
  for (int i = 0; i < isize(edge.results); ++i)
    if (at(edge.results, i) == slot) return &at(edge.map->results, i);
  return nullptr;
}

}  // namespace

ChangeSearch::ChangeSearch(const Variant& variant, DecisionMemo& memo, const ProgramEstimator& estimator,
                           const MachineModel& machine)
    : program_(variant.program), graph_(variant.graph), memo_(memo), estimator_(estimator), machine_(machine) {
  const auto counts = run_counts(program_);
  for (const PropagationEdge& edge : graph_.edges) {
    const bool is_op = edge.computation >= 0;
    times_.push_back(is_op ? at(counts, edge.computation) : 1);
    signatures_.push_back(is_op ? &memo.signatures.of(program_, program_[edge.computation], *edge.instruction)
                                : nullptr);
  }
  for (const PropagationSlot& slot : graph_.slots)
    is_free_.push_back(!slot.fixed && slot.open && slot.type.is_array() && slot.sharding.manual.empty());
}

void ChangeSearch::start_from(const Slots& slots) {
  slots_ = slots;
  ids_.clear();
  for (const PropagationSlot& slot : slots) ids_.push_back(memo_.shardings.id_of(make_sharding(slot.sharding)));
}

ChangeSearch::Changes ChangeSearch::changed(const ReshardTrial& trial) {
  Changes changes;
  std::vector<int> front = trial.slots;
  for (const int slot : trial.slots) {
    Sharding wanted = trial.sharding;
    for (DimSharding& dim : wanted.dims) dim.open = true;
    const int id = memo_.shardings.id_of(make_sharding(std::move(wanted)));
    const int edge = at(graph_.edges_of_slot, slot).empty() ? -1 : at(graph_.edges_of_slot, slot).back();
    changes[slot] = {id, edge};
  }
  for (std::size_t next = 0; next < front.size(); ++next) spread(front[next], changes, front);
  boost::unordered::erase_if(changes, [&](const auto& one) { return one.second.sharding == at(ids_, one.first); });
  return changes;
}

ChangeSearch::Changes ChangeSearch::changes_to(const Slots& slots) {
  Changes changes;
  for (int s = 0; s < isize(slots); ++s)
    if (!(at(slots, s).sharding == at(slots_, s).sharding))
      changes[s] = {memo_.shardings.id_of(make_sharding(at(slots, s).sharding)), at(slots, s).why_edge};
  return changes;
}

Slots ChangeSearch::slots_after(const Changes& changes) const {
  Slots out = slots_;
  for (const auto& [slot, to] : changes) {
    at(out, slot).sharding = memo_.shardings.of(to.sharding)->front();
    at(out, slot).why_edge = to.edge;
  }
  return out;
}

double ChangeSearch::difference(const Changes& changes) {
  std::vector<int> edges;
  for (const auto& [slot, to] : changes)
    edges.insert(edges.end(), at(graph_.edges_of_slot, slot).begin(), at(graph_.edges_of_slot, slot).end());
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  const Changes none;
  double change = 0;
  for (const int edge : edges) change += at(times_, edge) * (cost_of(edge, changes) - cost_of(edge, none));
  return change;
}

void ChangeSearch::spread(int slot, Changes& changes, std::vector<int>& front) {
  const auto offer = [&](int edge, int other) {
    for (const int sharding : suggested(edge, slot, other, changes)) {
      if (difference(other, sharding, changes) <= 0) {
        changes[other].edge = edge;
        front.push_back(other);
        return;
      }
      changes.erase(other);
    }
  };
  for (const int edge : at(graph_.edges_of_slot, slot))
    for (const auto* side : {&at(graph_.edges, edge).operands, &at(graph_.edges, edge).results})
      for (const int other : *side)
        if (at(is_free_, other) && !changes.contains(other)) offer(edge, other);
}

std::vector<int> ChangeSearch::suggested(int edge, int from, int to, const Changes& changes) {
  const PropagationEdge& e = at(graph_.edges, edge);
  const TensorFactors* known = factors_at(e, from);
  const TensorFactors* wanted = factors_at(e, to);
  const Sharding& sharding = sharding_of(from, changes);
  std::vector<int> out;
  if (known == nullptr || wanted == nullptr || !(sharding.mesh == graph_.mesh)) return out;
  const Strategy suggestion = legal(*e.map, project(*e.map, *known, sharding));
  Strategy merged = suggestion;
  merge_into(merged, legal(*e.map, project(*e.map, *wanted, sharding_of(to, changes))));
  for (const Strategy& strategy : {legal(*e.map, std::move(merged)), suggestion}) {
    Sharding found = unproject(graph_.mesh, *e.map, *wanted, strategy);
    for (DimSharding& dim : found.dims) dim.open = true;
    const int id = memo_.shardings.id_of(make_sharding(std::move(found)));
    if (id != at(ids_, to) && std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
  }
  return out;
}

double ChangeSearch::difference(int slot, int sharding, Changes& changes) {
  double out = 0;
  for (const int edge : at(graph_.edges_of_slot, slot)) out -= at(times_, edge) * cost_of(edge, changes);
  changes[slot].sharding = sharding;
  for (const int edge : at(graph_.edges_of_slot, slot)) out += at(times_, edge) * cost_of(edge, changes);
  return out;
}

double ChangeSearch::cost_of(int edge, const Changes& changes) {
  const PropagationEdge& e = at(graph_.edges, edge);
  const OpSignature* signature = at(signatures_, edge);
  key_ = {signature != nullptr ? signature->id : -1 - e.map_id};
  if (signature == nullptr) key_.push_back(types_.id_of(at(graph_.slots, e.results.front()).type));
  for (const auto* side : {&e.operands, &e.results})
    for (const int slot : *side) {
      key_.push_back(id_of(slot, changes));
      const Sharding& sharding = sharding_of(slot, changes);
      if (!sharding.manual.empty() || !sharding.is_tiled()) return 0;  // in manual regions nothing changes
    }
  if (const auto known = known_.find(key_); known != known_.end()) return known->second;
  const std::vector<int> key = key_;
  const double cost = signature != nullptr ? cost_of_op(edge, changes) : cost_of_flow(edge, changes);
  return known_.emplace(key, cost).first->second;
}

double ChangeSearch::moved(int slot, const Sharding& from, const Sharding& to) const {
  const Type& type = at(graph_.slots, slot).type;
  return type.is_array() ? reshard_cost(type, from, to, machine_.links()) : 0;
}

double ChangeSearch::cost_of_flow(int edge, const Changes& changes) const {
  const PropagationEdge& e = at(graph_.edges, edge);
  const auto settled = [&](int slot) { return sharding_of(slot, changes).closed().without_partial(); };
  const double bytes = moved(e.results.front(), settled(e.operands.front()), settled(e.results.front()));
  return machine_.links().is_uniform() ? bytes : machine_.seconds_of_moved(bytes);
}

double ChangeSearch::cost_of_op(int edge, const Changes& changes) {
  const PropagationEdge& e = at(graph_.edges, edge);
  const OpSignature& signature = *at(signatures_, edge);
  const auto settled = [&](int slot) { return sharding_of(slot, changes).closed().without_partial(); };
  Shardings found;
  for (const int slot : e.results) found.push_back(sharding_of(slot, changes));
  OpRequest request{signature,
                    {},
                    rematerialized_operands(program_[e.computation], *e.instruction),
                    make_shardings(found),
                    make_shardings(found)};
  for (const int slot : e.operands) request.operands.push_back(make_sharding(settled(slot)));
  const OpDecision& decision = memo_.decisions(/*least_work=*/false).decide(graph_.mesh, request, memo_.shardings);
  double bytes = 0;
  for (int i = 0; i < isize(e.operands); ++i)
    if (!at(request.rematerialized, i))
      bytes += moved(at(e.operands, i), settled(at(e.operands, i)), at(decision.needed, i));
  for (int i = 0; i < isize(e.results); ++i)
    bytes += moved(at(e.results, i), at(*decision.results, i), settled(at(e.results, i)));
  const ProgramEstimator::OpCost op = estimator_.of_op(graph_.mesh, signature, decision.needed, *decision.results);
  return machine_.links().is_uniform() ? bytes + op.moved + op.work : machine_.seconds_of_moved(bytes) + op.seconds;
}

}  // namespace tessera

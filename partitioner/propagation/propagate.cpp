// SPDX-License-Identifier: Apache-2.0
#include "propagation/propagate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "pipeline/interner.h"
#include "propagation/factor_sharding.h"
#include "propagation/propagation_graph.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using Slots = std::vector<PropagationSlot>;

// Axes for one dim of a tensor of an op, suggested by the op's other tensors.
struct Suggestion {
  bool of_result = false;
  int tensor = 0;
  int dim = 0;
  Axes axes;
};

// A suggestion to a slot. Offers are ordered by content, never by their place in the program.
struct Offer {
  int slot = 0;
  int dim = 0;
  std::int64_t weight = 0;  // bytes of the op's largest tensor
  const Axes* axes = nullptr;
  int edge = -1;
  friend bool operator<(const Offer& a, const Offer& b) {
    const auto key = [](const Offer& o) { return std::tuple(o.slot, -o.weight, -isize(*o.axes), o.dim); };
    return key(a) != key(b) ? key(a) < key(b) : *a.axes < *b.axes;
  }
};

// The phases of propagation. First only ops that keep all factors take part; then all ops, but without suggestions
// between operands for reduced factors, which the result does not have; then with those; finally also suggestions into
// broadcasts.
enum class Phase : std::uint8_t { kMovesOnly, kKeptFactors, kAllButBroadcast, kEverything };
constexpr Phase kPhases[] = {Phase::kMovesOnly, Phase::kKeptFactors, Phase::kAllButBroadcast, Phase::kEverything};

bool takes_part(const PropagationEdge& edge, Phase phase) { return phase != Phase::kMovesOnly || edge.passes_all; }

bool is_prefix(const Axes& shorter, const Axes& longer) {
  return shorter.size() <= longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

// Index tensors have the highest priority: the rows of a batch of ids are a batch, whatever the table.
bool is_index(const PropagationSlot& slot) { return slot.type.is_array() && is_integer(slot.type.dtype()); }

// Reduces each tensor's strategy to a legal one before merging, so that an axis of a factor that must be replicated is
// free for other factors. Axes propagate along a blocked dim only if other dims can take them during the op.
Strategy strategy_by(const PropagationEdge& edge, const TensorFactors& factors, const Sharding& sharding) {
  Strategy proposed = project(*edge.map, factors, sharding);
  if (edge.strict == nullptr) return legal(*edge.map, std::move(proposed));
  if (axes_size(all_axes(moved_to_kept(*edge.strict, proposed))) != axes_size(all_axes(proposed)))
    return legal(*edge.strict, std::move(proposed));
  return legal(*edge.map, std::move(proposed));
}

// Merges the strategies that the op's tensors imply. Larger tensors come first; ties are ordered by content.
Strategy strategy_of_edge(const Mesh& mesh, const Slots& all, const PropagationEdge& edge, PropagationOrder order,
                          bool kept_only) {
  struct Source {
    const TensorFactors* factors;
    const PropagationSlot* slot;
  };
  std::vector<Source> sources;
  const auto gather = [&](const std::vector<TensorFactors>& tensors, const std::vector<int>& slots) {
    for (int i = 0; i < isize(slots); ++i) {
      const PropagationSlot& slot = at(all, at(slots, i));
      if (slot.sharding.mesh == mesh) sources.push_back({&at(tensors, i), &slot});  // one mesh only
    }
  };
  gather(edge.map->operands, edge.operands);
  gather(edge.map->results, edge.results);
  const auto key = [order](const Source& s) {
    Axes axes = s.slot->sharding.used_axes();
    const bool given_first = order == PropagationOrder::kGivenFirst || order == PropagationOrder::kNearestFirst;
    const bool given_late = !given_first && !s.slot->fixed;
    const bool derived = given_first && !s.slot->fixed;
    const bool looks_up = order != PropagationOrder::kLargestFirst && is_index(*s.slot);
    return std::tuple(!looks_up, derived, -s.slot->type.byte_size(), given_late, axes);
  };
  std::stable_sort(sources.begin(), sources.end(), [&](const Source& a, const Source& b) { return key(a) < key(b); });
  Strategy out(edge.map->factors.size());
  for (const auto& source : sources) {
    Strategy proposed = strategy_by(edge, *source.factors, source.slot->sharding);
    for (int f = 0; kept_only && f < isize(proposed); ++f)
      if (at(edge.map->factors, f).kind == FactorKind::kReduce) at(proposed, f).clear();
    merge_into(out, proposed);
  }
  return legal(*edge.map, std::move(out));
}

std::int64_t weight_of(const Slots& all, const PropagationEdge& edge) {
  std::int64_t weight = 0;
  for (const auto* slots : {&edge.operands, &edge.results})
    for (const int slot : *slots) weight = std::max(weight, at(all, slot).type.byte_size());
  return weight;
}

void suggest(const Mesh& mesh, const Slots& all, const FactorMap& map, bool of_result, const std::vector<int>& slots,
             const Strategy& strategy, std::vector<Suggestion>& out) {
  const auto& tensors = of_result ? map.results : map.operands;
  for (int i = 0; i < isize(slots); ++i) {
    const auto& slot = at(all, at(slots, i));
    if (!slot.open || !(slot.sharding.mesh == mesh)) continue;
    const Sharding wanted = unproject(mesh, map, at(tensors, i), strategy);
    for (int d = 0; d < slot.sharding.ndim(); ++d) {
      const auto& mine = at(slot.sharding.dims, d);
      const auto& theirs = at(wanted.dims, d).axes;
      if (!mine.open || theirs.size() <= mine.axes.size() || !is_prefix(mine.axes, theirs)) continue;
      out.push_back({of_result, i, d, theirs});
    }
  }
}

// The state of a slot as an op sees it: ops with equal factors between slots in equal states make equal suggestions.
struct SlotState {
  int sharding = 0;
  std::int64_t bytes = 0;
  bool fixed = false;
  bool open = false;
  friend bool operator==(const SlotState&, const SlotState&) = default;
  [[nodiscard]] std::size_t hash() const {
    return hash_mix(static_cast<std::size_t>(sharding), static_cast<std::size_t>(bytes));
  }
};
class Propagation {
 public:
  Propagation(const PropagationGraph& graph, Slots& slots, PropagationOrder order)
      : graph_(graph), slots_(slots), order_(order) {
    for (const auto& slot : slots) states_of_slots_.push_back(state_of(slot));
  }
  void run(Phase phase);
  enum class Direction : std::uint8_t { kForward, kBackward };
  void sweep(Direction direction);

 private:
  int state_of(const PropagationSlot& slot) {
    return states_.id_of({shardings_.id_of(slot.sharding), slot.type.byte_size(), slot.fixed, slot.open});
  }
  // The suggestions of an op, computed once for equal ops, such as those of a model's layers.
  const std::vector<Suggestion>& suggestions(const PropagationEdge& edge, Phase phase) {
    const bool forward = phase == Phase::kEverything || !edge.broadcasts;
    const bool kept_only = phase <= Phase::kKeptFactors;
    key_ = {edge.map_id, (forward ? 1 : 0) + (kept_only ? 2 : 0)};
    for (const auto* slots : {&edge.operands, &edge.results})
      for (const int slot : *slots) key_.push_back(at(states_of_slots_, slot));
    const auto [entry, is_new] = suggestions_.try_emplace(key_);
    if (is_new) {
      const Strategy strategy = strategy_of_edge(graph_.mesh, slots_, edge, order_, kept_only);
      suggest(graph_.mesh, slots_, *edge.map, false, edge.operands, strategy, entry->second);
      if (forward) suggest(graph_.mesh, slots_, *edge.map, true, edge.results, strategy, entry->second);
    }
    return entry->second;
  }
  void collect(int edge, Phase phase, std::vector<Offer>& offers) {
    const auto& e = at(graph_.edges, edge);
    if (!takes_part(e, phase)) return;
    const auto& found = suggestions(e, phase);
    if (found.empty()) return;
    const auto weight = weight_of(slots_, e);
    for (const auto& s : found)
      offers.push_back({at(s.of_result ? e.results : e.operands, s.tensor), s.dim, weight, &s.axes, edge});
  }

  const PropagationGraph& graph_;
  Slots& slots_;
  PropagationOrder order_;
  Interner<Sharding> shardings_;
  Interner<SlotState> states_;
  std::vector<int> states_of_slots_;
  std::vector<int> key_;
  ByIds<std::vector<Suggestion>> suggestions_;
};

Axes reserved_axes(const PropagationSlot& slot) {
  Axes out = slot.sharding.used_axes();
  for (const auto& [dim, later] : slot.waiting) out.insert(out.end(), later.axes.begin(), later.axes.end());
  return out;
}

// Applies a slot's offers in content order, each axis once. Returns true if the slot changed.
bool accept(Slots& slots, const Offer& offer) {
  auto& slot = at(slots, offer.slot);
  auto& dim = at(slot.sharding.dims, offer.dim);
  const Axes& axes = *offer.axes;
  if (axes.size() <= dim.axes.size() || !is_prefix(dim.axes, axes)) return false;
  const Axes used = reserved_axes(slot);
  bool changed = false;
  for (std::size_t i = dim.axes.size(); i < axes.size() && !overlaps_any(used, axes[i]); ++i) {
    dim.axes.push_back(axes[i]);
    changed = true;
  }
  if (changed) slot.why_edge = offer.edge;
  return changed;
}

// Each op suggests shardings to its results once, in program order, or to its operands in reverse order. An op's inputs
// are final when its turn comes, so any order of independent ops gives the same outcome.
void Propagation::sweep(Direction direction) {
  const bool forward = direction == Direction::kForward;
  const int count = isize(graph_.edges);
  for (int i = 0; i < count; ++i) {
    const int edge = forward ? i : count - 1 - i;
    if (forward && at(graph_.edges, edge).broadcasts) continue;
    std::vector<Offer> offers;
    collect(edge, Phase::kKeptFactors, offers);
    const auto& targets = forward ? at(graph_.edges, edge).results : at(graph_.edges, edge).operands;
    std::erase_if(offers,
                  [&](const Offer& o) { return std::find(targets.begin(), targets.end(), o.slot) == targets.end(); });
    std::sort(offers.begin(), offers.end());
    for (const auto& offer : offers)
      if (accept(slots_, offer)) at(states_of_slots_, offer.slot) = state_of(at(slots_, offer.slot));
  }
}

// Runs rounds. In each round, the ops with changed slots make offers, based on the previous round only. Ops that keep
// all factors run until they are stable before the other ops continue, so that a sharding reaches the ends of a chain
// before it meets another sharding.
void Propagation::run(Phase phase) {
  std::vector<char> queued(graph_.edges.size(), 1);
  std::vector<int> movers;
  std::map<int, std::vector<int>> others;  // by turn; those with the smallest number run next
  const auto wait = [&](int edge) {
    const PropagationEdge& e = at(graph_.edges, edge);
    const int turn = order_ == PropagationOrder::kNearestFirst ? e.depth : 0;
    (e.passes_all ? movers : others[turn]).push_back(edge);
  };
  for (int edge = 0; edge < isize(graph_.edges); ++edge) wait(edge);
  while (!movers.empty() || !others.empty()) {
    std::vector<int> frontier = std::exchange(movers, {});
    if (frontier.empty()) frontier = std::move(others.extract(others.begin()).mapped());
    std::sort(frontier.begin(), frontier.end());
    std::vector<Offer> offers;
    for (const int edge : frontier) {
      at(queued, edge) = 0;
      collect(edge, phase, offers);
    }
    std::sort(offers.begin(), offers.end());
    for (const auto& offer : offers) {
      if (!accept(slots_, offer)) continue;
      at(states_of_slots_, offer.slot) = state_of(at(slots_, offer.slot));
      for (const int edge : at(graph_.edges_of_slot, offer.slot))
        if (std::exchange(at(queued, edge), 1) == 0) wait(edge);
    }
  }
}

// Sets dims with a priority aside and returns the rounds that are needed.
std::set<int> hold_back(Slots& slots) {
  std::set<int> rounds{0};
  for (auto& slot : slots)
    for (int d = 0; d < slot.sharding.ndim(); ++d) {
      auto& dim = at(slot.sharding.dims, d);
      if (dim.priority.value_or(0) <= 0) continue;
      rounds.insert(*dim.priority);
      slot.waiting.emplace_back(d, std::exchange(dim, DimSharding{}));
    }
  return rounds;
}

void join_round(Slots& slots, int round) {
  for (auto& slot : slots)
    std::erase_if(slot.waiting, [&](const auto& entry) {
      const bool now = *entry.second.priority <= round;
      if (now) at(slot.sharding.dims, entry.first) = entry.second;
      return now;
    });
}

}  // namespace

Slots propagated(const PropagationGraph& graph, PropagationOrder order, const std::vector<PropagationHint>& hints) {
  Slots slots = graph.slots;
  for (const auto& [slot, sharding] : hints)
    for (int d = 0; d < sharding.ndim(); ++d) {
      at(at(slots, slot).sharding.dims, d).axes = at(sharding.dims, d).axes;
      at(at(slots, slot).sharding.dims, d).open = false;
    }
  for (const int round : hold_back(slots)) {
    join_round(slots, round);
    Propagation propagation(graph, slots, order);
    if (order == PropagationOrder::kForwardFirst) propagation.sweep(Propagation::Direction::kForward);
    if (order == PropagationOrder::kBackwardFirst) propagation.sweep(Propagation::Direction::kBackward);
    for (const Phase phase : kPhases) propagation.run(phase);
  }
  for (const auto& [slot, sharding] : hints)
    for (DimSharding& dim : at(slots, slot).sharding.dims) dim.open = true;
  return slots;
}

Program propagate(const Program& program, PropagationOrder order) {
  const PropagationGraph graph = build_propagation_graph(program);
  return write_shardings(program, graph, propagated(graph, order));
}

}  // namespace tessera

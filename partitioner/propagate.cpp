// SPDX-License-Identifier: Apache-2.0
#include "propagate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "factor_sharding.h"
#include "propagation_graph.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// An offer of axes for one dim of a slot; offers are ordered by content, never by place in the program.
struct Offer {
  int slot = 0;
  int dim = 0;
  std::int64_t weight = 0;  // bytes of the tensor it came from
  Axes axes;
  int edge = -1;
  [[nodiscard]] auto key() const { return std::tuple(slot, -weight, -isize(axes), dim, axes); }
};

enum class Phase : std::uint8_t { kMovesOnly, kAllButBroadcast, kEverything };

bool takes_part(const PropagationEdge& edge, Phase phase) { return phase != Phase::kMovesOnly || edge.passes_all; }

bool is_prefix(const Axes& shorter, const Axes& longer) {
  return shorter.size() <= longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

// What the op's tensors together say of its factors; larger tensors first, then by content.
Strategy strategy_of(const PropagationGraph& graph, const PropagationEdge& edge, bool with_operands,
                     bool with_results) {
  struct Source {
    const TensorFactors* factors;
    const PropagationSlot* slot;
  };
  std::vector<Source> sources;
  const auto gather = [&](const std::vector<TensorFactors>& tensors, const std::vector<int>& slots) {
    for (int i = 0; i < isize(slots); ++i) {
      const auto& slot = at(graph.slots, at(slots, i));
      if (slot.sharding.mesh == graph.mesh) sources.push_back({&at(tensors, i), &slot});
    }
  };
  if (with_operands) gather(edge.map->operands, edge.operands);
  if (with_results) gather(edge.map->results, edge.results);
  const auto key = [](const Source& s) {
    Axes axes = s.slot->sharding.used_axes();
    return std::tuple(!s.slot->fixed, -s.slot->type.byte_size(), axes);
  };
  std::stable_sort(sources.begin(), sources.end(), [&](const Source& a, const Source& b) { return key(a) < key(b); });
  Strategy out(edge.map->factors.size());
  for (const auto& source : sources) merge_into(out, project(*edge.map, *source.factors, source.slot->sharding));
  return legal(*edge.map, std::move(out));
}

std::int64_t weight_of(const PropagationGraph& graph, const PropagationEdge& edge) {
  std::int64_t weight = 0;
  for (const auto* slots : {&edge.operands, &edge.results})
    for (const int slot : *slots) weight = std::max(weight, at(graph.slots, slot).type.byte_size());
  return weight;
}

void offer_to(const PropagationGraph& graph, int edge, const std::vector<TensorFactors>& tensors,
              const std::vector<int>& slots, const Strategy& strategy, std::vector<Offer>& offers) {
  const auto& map = *at(graph.edges, edge).map;
  const auto weight = weight_of(graph, at(graph.edges, edge));
  for (int i = 0; i < isize(slots); ++i) {
    const auto& slot = at(graph.slots, at(slots, i));
    if (!slot.open || !(slot.sharding.mesh == graph.mesh)) continue;  // axes of another mesh are others
    const Sharding wanted = unproject(graph.mesh, map, at(tensors, i), strategy);
    for (int d = 0; d < slot.sharding.ndim(); ++d) {
      const auto& mine = at(slot.sharding.dims, d);
      const auto& theirs = at(wanted.dims, d).axes;
      if (!mine.open || theirs.size() <= mine.axes.size() || !is_prefix(mine.axes, theirs)) continue;
      offers.push_back({at(slots, i), d, weight, theirs, edge});
    }
  }
}

void collect(const PropagationGraph& graph, int edge, Phase phase, std::vector<Offer>& offers) {
  const auto& e = at(graph.edges, edge);
  if (!takes_part(e, phase)) return;
  const bool forward = phase == Phase::kEverything || !e.broadcasts;
  const Strategy strategy = strategy_of(graph, e, true, true);
  offer_to(graph, edge, e.map->operands, e.operands, strategy, offers);
  if (forward) offer_to(graph, edge, e.map->results, e.results, strategy, offers);
}

Axes reserved_axes(const PropagationSlot& slot) {
  Axes out = slot.sharding.used_axes();
  for (const auto& [dim, later] : slot.waiting) out.insert(out.end(), later.axes.begin(), later.axes.end());
  return out;
}

// Applies a slot's offers in content order, each axis once; true when the slot changed.
bool accept(PropagationGraph& graph, const Offer& offer) {
  auto& slot = at(graph.slots, offer.slot);
  auto& dim = at(slot.sharding.dims, offer.dim);
  if (offer.axes.size() <= dim.axes.size() || !is_prefix(dim.axes, offer.axes)) return false;
  const Axes used = reserved_axes(slot);
  bool changed = false;
  for (std::size_t i = dim.axes.size(); i < offer.axes.size() && !overlaps_any(used, offer.axes[i]); ++i) {
    dim.axes.push_back(offer.axes[i]);
    changed = true;
  }
  if (changed) slot.why_edge = offer.edge;
  return changed;
}

void run_phase(PropagationGraph& graph, Phase phase) {
  std::vector<int> frontier(graph.edges.size());
  std::iota(frontier.begin(), frontier.end(), 0);
  std::vector<char> queued(graph.edges.size(), 0);
  while (!frontier.empty()) {
    std::vector<Offer> offers;
    for (const int edge : frontier) collect(graph, edge, phase, offers);
    std::sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) { return a.key() < b.key(); });
    frontier.clear();
    for (const auto& offer : offers) {
      if (!accept(graph, offer)) continue;
      for (const int edge : at(graph.edges_of_slot, offer.slot)) {
        if (at(queued, edge) != 0) continue;
        at(queued, edge) = 1;
        frontier.push_back(edge);
      }
    }
    for (const int edge : frontier) at(queued, edge) = 0;
    std::sort(frontier.begin(), frontier.end());
  }
}

// Puts dims with a priority aside; returns the rounds there are.
std::set<int> hold_back(PropagationGraph& graph) {
  std::set<int> rounds{0};
  for (auto& slot : graph.slots)
    for (int d = 0; d < slot.sharding.ndim(); ++d) {
      auto& dim = at(slot.sharding.dims, d);
      if (dim.priority.value_or(0) <= 0) continue;
      rounds.insert(*dim.priority);
      slot.waiting.emplace_back(d, std::exchange(dim, DimSharding{}));
    }
  return rounds;
}

void join_round(PropagationGraph& graph, int round) {
  for (auto& slot : graph.slots)
    std::erase_if(slot.waiting, [&](const auto& entry) {
      const bool now = *entry.second.priority <= round;
      if (now) at(slot.sharding.dims, entry.first) = entry.second;
      return now;
    });
}

}  // namespace

Program propagate(const Program& program) {
  PropagationGraph graph = build_propagation_graph(program);
  for (const int round : hold_back(graph)) {
    join_round(graph, round);
    for (const auto phase : {Phase::kMovesOnly, Phase::kAllButBroadcast, Phase::kEverything}) run_phase(graph, phase);
  }
  return write_shardings(program, graph);
}

}  // namespace tessera

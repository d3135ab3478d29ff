// SPDX-License-Identifier: Apache-2.0
// Selects the best outcome of propagation. The propagation orders resolve conflicts one at a time. If an order leaves
// the two ends of a chain with different shardings, the chain contains a reshard. The search takes the reshards in
// order of cost, largest first, and tries two changes for each: the producer gets the sharding of the consumer's
// operand, or the consumer gets the sharding of the producer.
//
//   %e {rows,-} -> %d = divide(%e {-,rows}, ..)       try %e {-,rows}; try %d {rows,-}
//   %e {rows,-} -> %d = dot(%e {-,-}, ..)             try %d {rows,-}, unless that increases the work
#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "explain/explain.h"
#include "normalize/duplicate_cheap_values.h"
#include "normalize/manual.h"
#include "propagation/factor_sharding.h"
#include "propagation/propagate.h"
#include "reshard_insertion/insert_reshards.h"
#include "reshard_insertion/split_scans.h"
#include "strategy/modelled_cost.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

using Slots = std::vector<PropagationSlot>;
using Hints = std::vector<PropagationHint>;

/// A form of the program; some ops may have been expanded.
struct Variant {
  Program program;
  PropagationGraph graph;
};

struct Outcome {
  const Variant* variant = nullptr;
  PropagationOrder order = PropagationOrder::kGivenFirst;
  Hints hints;
  Slots slots;
  Propagated result;
  Weight weight{};
};

bool same_shardings(const Slots& a, const Slots& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](const auto& x, const auto& y) { return x.sharding == y.sharding; });
}

std::vector<Variant> variants_of(const Program& program) {
  std::vector<Variant> out;
  out.push_back({program, build_propagation_graph(program)});
  const Program expanded = expand_ops(program);
  if (expanded.computations == program.computations) return out;
  out.push_back({duplicate_cheap_values(merge_duplicates(simplify(expanded))), {}});
  out.back().graph = build_propagation_graph(out.back().program);
  return out;
}

/// Finds the values of a program by the names of their computation and instruction.
class Names {
 public:
  explicit Names(const Variant& variant) : variant_(variant) {
    for (ComputationId c = 0; c < isize(variant.program.computations); ++c)
      computations_.emplace(variant.program[c].name, c);
  }
  // The slot of an array that is outside of manual regions and has no annotation; -1 if no value has this name and
  // type.
  int free_slot(std::string_view computation, std::string_view name, const Type& type) {
    const auto found = computations_.find(computation);
    if (found == computations_.end() || at(variant_.graph.leaf_slots, found->second).empty()) return -1;
    auto& values = values_[found->second];
    if (values.empty())
      for (Id id = 0; id < variant_.program[found->second].size(); ++id)
        values.emplace(variant_.program[found->second][id].name, id);
    const auto value = values.find(name);
    if (value == values.end()) return -1;
    const auto& slots = at(at(variant_.graph.leaf_slots, found->second), value->second);
    if (slots.size() != 1) return -1;
    const PropagationSlot& slot = at(variant_.graph.slots, slots.front());
    return !slot.fixed && slot.type == type && slot.sharding.manual.empty() ? slots.front() : -1;
  }

 private:
  const Variant& variant_;
  boost::unordered_flat_map<std::string_view, ComputationId, HashText> computations_;
  boost::unordered_flat_map<ComputationId, boost::unordered_flat_map<std::string_view, Id, HashText>> values_;
};

// The sharding of an op's only result that follows from the sharding of one operand; nullopt if it shards no dim of the
// result.
//   [i {x},k], [k,j] -> [i,j]:   {x,-}
std::optional<Sharding> as_read(const OpView& view, int operand, const Sharding& sharding) {
  const bool all_arrays =
      std::all_of(view.operands.begin(), view.operands.end(), [](const Type& t) { return t.is_array(); });
  if (!view.result.is_array() || !all_arrays) return std::nullopt;
  const FactorMap map = factor_map(view);
  const Strategy implied = legal(map, project(map, at(map.operands, operand), sharding));
  Sharding out = unproject(sharding.mesh, map, map.results.front(), implied);
  return out.used_axes().empty() ? std::nullopt : std::optional(std::move(out));
}

// Whether the instruction belongs to a manual region; the axes of the region shard no dims.
bool is_in_region(const Instruction& instruction) {
  return instruction.frontend_attribute(kManualAxesAttribute) != nullptr;
}

/// A change to try, and the cost of the reshard that it would remove.
struct Trial {
  double cost = 0;
  PropagationHint hint;
  bool spares_work = false;  // reject the change if it increases the work
};

class Chooser {
 public:
  Chooser(const Program& program, const MachineModel& machine, const ProgramWeight& weight, int trials)
      : cost_{.machine = machine}, weight_(weight), variants_(variants_of(program)) {
    const auto size = static_cast<std::size_t>(program.instruction_count());
    constexpr std::size_t kMostWork = 16000;  // limit on the instructions of all trials together
    trials_ = std::min(static_cast<std::size_t>(trials), kMostWork / std::max<std::size_t>(1, size));
  }

  Propagated choose() {
    std::vector<Outcome> candidates = outcomes_of_orders();
    Outcome best;
    for (Outcome& candidate : candidates) {
      choose_by_weight(candidate);
      if (best.variant == nullptr || candidate.weight.all < best.weight.all)
        best = std::move(candidate);
      else
        candidate = {};
    }
    while (trials_ > 0 && improve(best)) {
    }
    return std::move(best.result);
  }

 private:
  std::vector<Outcome> outcomes_of_orders() const {
    std::vector<Outcome> out;
    for (const Variant& variant : variants_)
      for (const auto order :
           {PropagationOrder::kGivenFirst, PropagationOrder::kLargestFirst, PropagationOrder::kForwardFirst,
            PropagationOrder::kNearestFirst, PropagationOrder::kBackwardFirst}) {
        Slots found = propagated(variant.graph, order);
        const auto is_same = [&](const Outcome& other) {
          return other.variant == &variant && same_shardings(found, other.slots);
        };
        if (std::none_of(out.begin(), out.end(), is_same)) out.push_back({&variant, order, {}, std::move(found), {}});
      }
    return out;
  }

  static Program written(const Outcome& outcome) {
    const auto& [program, graph] = *outcome.variant;
    return without_manual_axes(write_shardings(program, graph, outcome.slots));
  }
  [[nodiscard]] Propagated resharded(const Outcome& outcome, const OpChoices& choices) const {
    Program found = written(outcome);
    Program after = insert_reshards(found, cost_.machine, choices);
    return {std::move(found), choices, std::move(after)};
  }

  // Compares the ways in which ops may choose, and keeps the one of least cost.
  void choose_by_weight(Outcome& outcome) const {
    bool is_first = true;
    std::vector<OpChoices> ways{{}, {.known_copies = false}, {.least_work = true}};
    const bool has_scans = weight_ && has_scans_to_split(written(outcome));
    if (has_scans) ways.insert(ways.begin(), {.scans_by_parts = false});
    for (const OpChoices& choices : ways) {
      Propagated result = resharded(outcome, choices);
      const Weight weight =
          weight_ ? weight_(result.resharded) : Weight{program_seconds(merge_duplicates(result.resharded), cost_)};
      // Reject less work in exchange for more bytes; only the propagation orders may make that trade.
      const bool saves_work = choices.least_work || (has_scans && choices.scans_by_parts);
      if (!std::exchange(is_first, false) &&
          (!(weight.all < outcome.weight.all) || (saves_work && weight.moved > outcome.weight.moved)))
        continue;
      outcome.weight = weight;
      outcome.result = std::move(result);
      if (!weight_) break;
    }
  }

  // Returns true if it replaced `best` by a better outcome.
  bool improve(Outcome& best) {
    constexpr double kMostRatio = 0.999;
    for (const Trial& trial : trials_for(best)) {
      if (!tried_.insert(fmt::format("{} {}", trial.hint.slot, trial.hint.sharding.str())).second) continue;
      if (trials_ == 0) return false;
      Outcome other{best.variant, best.order, best.hints, {}, {}};
      other.hints.push_back(trial.hint);
      other.slots = propagated(best.variant->graph, best.order, other.hints);
      if (same_shardings(other.slots, best.slots)) continue;
      --trials_;
      choose_by_weight(other);
      // Reject less work in exchange for more bytes; only the propagation orders may make that trade.
      if (!(other.weight.all < kMostRatio * best.weight.all) || other.weight.moved > best.weight.moved) continue;
      if (trial.spares_work && other.weight.work > best.weight.work) continue;
      best = std::move(other);
      return true;
    }
    return false;
  }

  // Sorted by the cost of the reshards, largest first.
  std::vector<Trial> trials_for(const Outcome& outcome) const {
    const Program& program = outcome.result.resharded;
    const auto used = partitioned_computations(program);
    const auto counts = run_counts(program);
    Names names(*outcome.variant);
    std::vector<Trial> out;
    for (ComputationId c = 0; c < isize(program.computations); ++c) {
      if (!at(used, c) || at(counts, c) == 0) continue;
      for (Id id = 0; id < program[c].size(); ++id) add_trials(program, c, id, at(counts, c), names, out);
    }
    std::stable_sort(out.begin(), out.end(), [](const Trial& a, const Trial& b) { return a.cost > b.cost; });
    return out;
  }

  // Adds trials for each reshard that `id` reads: one for the resharded value, one for the result of `id`.
  void add_trials(const Program& program, ComputationId c, Id id, double count, Names& names,
                  std::vector<Trial>& out) const {
    const Computation& computation = program[c];
    const Instruction& user = computation[id];
    for (int i = 0; i < isize(user.operands); ++i) {
      const Instruction& copy = computation[at(user.operands, i)];
      if (copy.op->role != Role::kCopy || !copy.type.is_array() || copy.operands.empty()) continue;
      const Instruction& source = computation[copy.operands.front()];
      if (is_in_region(user) || is_in_region(copy) || is_in_region(source)) continue;
      const Sharding& from = source.sharding->front();
      const Sharding& to = copy.sharding->front();
      if (from.is_partial() || to.is_partial() || !from.is_tiled() || !to.is_tiled()) continue;
      const double cost = count * reshard_cost(copy.type, from, to, cost_.machine.links());
      if (cost <= 0) continue;
      add(names.free_slot(computation.name, source.name, copy.type), to, cost, out);
      if (const auto result = as_read(view_of(program, computation, user), i, from))
        add(names.free_slot(computation.name, user.name, user.type), *result, cost, out, !user.op->elementwise);
    }
  }

  void add(int slot, const Sharding& sharding, double cost, std::vector<Trial>& out, bool spares_work = false) const {
    if (slot < 0 || !(sharding.mesh == variants_.front().graph.mesh) || !sharding.manual.empty()) return;
    out.push_back({cost, {slot, sharding}, spares_work});
  }

  CostModel cost_;
  const ProgramWeight& weight_;
  std::vector<Variant> variants_;
  std::size_t trials_ = 0;
  std::set<std::string> tried_;
};

}  // namespace

Propagated propagate_at_least_cost(const Program& program, const MachineModel& machine, const ProgramWeight& weight,
                                   int trials) {
  return Chooser(program, machine, weight, trials).choose();
}

Program insert_chosen_reshards(const Program& program, const MachineModel& machine, const Propagated& found) {
  const bool is_found = program.computations == found.program.computations;
  return is_found ? found.resharded : insert_reshards(program, machine, found.choices);
}

}  // namespace tessera

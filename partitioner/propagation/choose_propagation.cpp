// SPDX-License-Identifier: Apache-2.0
// Selects the best outcome of propagation. The propagation orders resolve conflicts one at a time. If an order leaves
// the two ends of a chain with different shardings, the chain contains a reshard; trials.h lists the changes that would
// remove it. A change is evaluated only if the ops that it concerns, each for itself, would then cost less.
//
// The number of orders does not depend on the program. The numbers of trials and evaluations fall with its size, so the time
// is at most linear in the size.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "auto_sharding/choose_shardings.h"
#include "normalize/duplicate_cheap_values.h"
#include "normalize/manual.h"
#include "pipeline/origins.h"
#include "propagation/change_search.h"
#include "propagation/propagate.h"
#include "propagation/trials.h"
#include "reshard_insertion/insert_reshards.h"
#include "reshard_insertion/split_scans.h"
#include "strategy/op_decisions.h"
#include "strategy/program_estimate.h"
#include "tessera/base/text.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/unmerge_dims.h"

namespace tessera {
namespace {

using Slots = std::vector<PropagationSlot>;

/// The cost of a program after insert_reshards, and its share of bytes received and of operations.
struct Weight {
  double all = 0;
  double moved = 0;
  double work = 0;
};

struct Outcome {
  const Variant* variant = nullptr;
  PropagationOrder order = PropagationOrder::kGivenFirst;
  std::vector<PropagationHint> hints;  // the changes since propagation in this order
  Slots slots;
  Propagated result;
  Weight weight{};
  std::vector<OpChoices> other_choices{};  // that would give another program
};

bool same_shardings(const Slots& a, const Slots& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](const auto& x, const auto& y) { return x.sharding == y.sharding; });
}

// Adds a form of the program unless it is the program itself.
void add_form(std::vector<Variant>& out, const Program& form, const Program& program) {
  if (form.computations == program.computations) return;
  out.push_back({duplicate_cheap_values(merge_duplicates(simplify(form))), {}});
}

// Unmerged dims can be sharded like merged ones, except that their tiles may be less even. Outcomes of equal cost have
// the first form.
std::vector<Variant> variants_of(const Program& program) {
  std::vector<Variant> out;
  add_form(out, unmerge_dims(program), program);
  out.push_back({program, {}});
  const Program first = out.front().program;
  add_form(out, expand_ops(first), first);
  for (Variant& variant : out) variant.graph = build_propagation_graph(variant.program);
  return out;
}

// Priorities decide between the shardings of a program's values before any cost does.
bool has_priorities(const PropagationGraph& graph) {
  return std::any_of(graph.slots.begin(), graph.slots.end(), [](const PropagationSlot& slot) {
    return std::any_of(slot.sharding.dims.begin(), slot.sharding.dims.end(),
                       [](const DimSharding& dim) { return dim.priority.value_or(0) > 0; });
  });
}

struct NamedValue {
  ComputationId computation = -1;
  Id id = -1;
  int slot = -1;
};

/// Annotates a value of a variant as long as it lives, also if an error is thrown meanwhile.
class Annotated {
 public:
  Annotated(Variant& variant, const NamedValue& value, const Sharding& sharding)
      : slot_(at(variant.graph.slots, value.slot)),
        computation_(at(variant.program.computations, value.computation)),
        slot_before_(slot_),
        before_(computation_) {
    slot_.sharding = sharding;
    slot_.fixed = true;
    slot_.open = std::any_of(sharding.dims.begin(), sharding.dims.end(), [](const auto& dim) { return dim.open; });
    auto annotated = std::make_shared<Computation>(*before_);
    at(annotated->instructions, value.id).sharding = make_sharding(sharding);
    computation_ = std::move(annotated);
  }
  ~Annotated() {
    slot_ = std::move(slot_before_);
    computation_ = std::move(before_);
  }
  Annotated(const Annotated&) = delete;
  Annotated& operator=(const Annotated&) = delete;

 private:
  PropagationSlot& slot_;
  ComputationRef& computation_;
  PropagationSlot slot_before_;
  ComputationRef before_;  // the edges of the graph refer to its instructions
};

class Chooser final : public Alternatives {
 public:
  Chooser(const Program& program, const MachineModel& machine, std::optional<double> memory_share)
      : machine_(machine),
        memory_share_(memory_share),
        variants_(variants_of(program)),
        memo_(machine),
        estimator_(machine) {
    constexpr std::int64_t kInstructions = 20'000;  // that the evaluations of changes read together
    constexpr std::int64_t kMost = 8;
    constexpr std::int64_t kSlots = 120'000;  // that the trials copy together
    constexpr std::int64_t kMostTrials = 64;
    constexpr std::int64_t kLeastTrials = 6;
    const auto size = static_cast<std::int64_t>(program.instruction_count());
    evaluations_ = propagations_ = std::clamp<std::int64_t>(kInstructions / std::max<std::int64_t>(1, size), 1, kMost);
    trials_ = std::clamp<std::int64_t>(kSlots / std::max<std::int64_t>(1, size), kLeastTrials, kMostTrials);
  }

  Propagated choose() {
    // Propagation alone knows no memory limit.
    std::vector<Outcome> candidates = memory_share_.value_or(1) < 1 ? std::vector<Outcome>() : outcomes_of_orders();
    if (memory_share_) add_automatic_outcomes(candidates);
    Outcome best;
    for (Outcome& candidate : candidates) {
      evaluate(candidate, {});
      improve_choices(candidate);
      if (best.variant == nullptr || candidate.weight.all < best.weight.all)
        best = std::move(candidate);
      else
        candidate = {};
    }
    ChangeSearch search(*best.variant, memo_, estimator_, machine_);
    while (!has_priorities(best.variant->graph) && improve(best, search)) {
    }
    best_ = std::move(best);
    return best_.result;
  }

  // The outcome of the first order.
  Propagated first() {
    const Variant& variant = variants_.front();
    best_ = {&variant, PropagationOrder::kGivenFirst, {}, propagated(variant.graph, PropagationOrder::kGivenFirst), {}};
    evaluate(best_, {});
    return best_.result;
  }

  EstimatedProgram chosen() override { return estimated(best_); }

  std::optional<EstimatedProgram> with(const std::string& name, const Sharding& sharding) override {
    const auto value = value_named(name);
    Variant& variant = at(variants_, best_.variant - variants_.data());
    if (!value || !(sharding.mesh == variant.graph.mesh)) return std::nullopt;
    const PropagationSlot& slot = at(variant.graph.slots, value->slot);
    if (!slot.type.is_array() || slot.type.ndim() != sharding.ndim() || !slot.sharding.manual.empty())
      return std::nullopt;
    std::vector<PropagationHint> hints = best_.hints;
    std::erase_if(hints, [&](const PropagationHint& hint) { return hint.slot == value->slot; });
    const Annotated annotated(variant, *value, sharding);
    Outcome out{&variant, best_.order, {}, propagated(variant.graph, best_.order, hints), {}};
    evaluate(out, best_.result.choices);
    return estimated(out);
  }

 private:
  // On other than equal links, the weight counts seconds instead of bytes.
  EstimatedProgram estimated(const Outcome& outcome) {
    const Program& resharded = outcome.result.resharded;
    const bool counts_bytes = machine_.links().is_uniform();
    return {resharded, counts_bytes ? outcome.weight.moved : byte_estimator_.of(resharded).moved, outcome.weight.work};
  }

  // The array with this name in the chosen variant.
  std::optional<NamedValue> value_named(const std::string& name) {
    const Program& program = best_.variant->program;
    if (values_by_name_.empty())
      for (ComputationId c = 0; c < isize(program.computations); ++c)
        for (Id id = 0; id < isize(at(best_.variant->graph.leaf_slots, c)); ++id) {
          const auto& slots = at(at(best_.variant->graph.leaf_slots, c), id);
          if (slots.size() == 1)
            values_by_name_.try_emplace(annotatable_name(program[c][id]), NamedValue{c, id, slots.front()});
        }
    const auto found = values_by_name_.find(name);
    return found == values_by_name_.end() ? std::nullopt : std::optional(found->second);
  }

  std::vector<Outcome> outcomes_of_orders() {
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

  // The open dims in manual regions follow the shardings that the solver has chosen outside of them.
  static Slots with_open_regions(const PropagationGraph& graph, const Slots& chosen) {
    std::vector<PropagationHint> hints;
    for (int s = 0; s < isize(chosen); ++s)
      if (!at(chosen, s).fixed && at(chosen, s).type.is_array()) hints.push_back({s, at(chosen, s).sharding});
    return propagated(graph, PropagationOrder::kGivenFirst, hints);
  }

  // The choice of the solver for all values, and propagation that begins with its choice for the parameters.
  void add_automatic_outcomes(std::vector<Outcome>& out) const {
    const Variant& variant = variants_.front();
    Slots chosen = chosen_shardings(variant, machine_, *memory_share_);
    const Computation& entry = variant.program.entry_computation();
    if (has_manual_regions(variant.program)) chosen = with_open_regions(variant.graph, chosen);
    std::vector<PropagationHint> hints;
    for (const Id parameter : entry.parameters)
      for (const int slot : at(at(variant.graph.leaf_slots, variant.program.entry), parameter))
        if (!at(variant.graph.slots, slot).fixed) hints.push_back({slot, at(chosen, slot).sharding});
    out.push_back({&variant,
                   PropagationOrder::kGivenFirst,
                   hints,
                   propagated(variant.graph, PropagationOrder::kGivenFirst, hints),
                   {}});
    out.push_back({&variant, PropagationOrder::kGivenFirst, {}, std::move(chosen), {}});
  }

  [[nodiscard]] double weight_of(const ProgramEstimate& is) const {
    const auto peak = static_cast<double>(is.peak_bytes);
    if (!memory_share_)
      return machine_.links().is_uniform() ? is.moved + is.work + peak : machine_.weight({is.seconds, is.peak_bytes});
    return is.seconds + kMemoryWeight * peak / machine_.memory_bytes_per_second();
  }

  // Reshards the outcome and computes its cost.
  void evaluate(Outcome& outcome, const OpChoices& choices) {
    const auto& [program, graph] = *outcome.variant;
    Program found = without_manual_axes(write_shardings(program, graph, outcome.slots));
    Program after = insert_reshards(found, machine_, choices, memo_);
    const ProgramEstimate is = estimator_.of(after);
    outcome.weight = {weight_of(is), is.moved, is.work};
    outcome.result = {std::move(found), choices, std::move(after)};
    if (!(choices == OpChoices{})) return;
    if (has_scans_to_split(outcome.result.program)) outcome.other_choices.push_back({.scans_by_parts = false});
    if (memo_.differs_without_copies) outcome.other_choices.push_back({.known_copies = false});
    if (memo_.differs_with_later_copies) outcome.other_choices.push_back({.later_copies = true});
    if (memo_.differs_with_least_work) outcome.other_choices.push_back({.least_work = true});
  }

  // Compares the ways in which ops may choose, and keeps the one of least cost.
  void improve_choices(Outcome& outcome) {
    for (const OpChoices& choices : std::vector(std::move(outcome.other_choices))) {
      Outcome other{outcome.variant, outcome.order, {}, outcome.slots, {}};
      evaluate(other, choices);
      if (is_better(other, outcome)) outcome = std::move(other);
    }
  }

  // Rejects less work in exchange for more bytes; only the propagation orders may make that trade.
  static bool is_better(const Outcome& other, const Outcome& than) {
    const OpChoices& choices = other.result.choices;
    const bool saved_work = than.result.choices.scans_by_parts && !choices.scans_by_parts;
    if (saved_work && than.weight.moved > other.weight.moved) return true;
    return other.weight.all < than.weight.all && !(choices.least_work && other.weight.moved > than.weight.moved);
  }

  // The outcome after a change: that of propagation which begins with it, or the change spreads over the ops that then
  // cost less. Nullopt if the ops that it concerns would not cost less.
  std::optional<Outcome> changed(const Outcome& from, const ReshardTrial& trial, ChangeSearch& search) {
    Outcome out{from.variant, from.order, {}, {}, {}};
    const ChangeSearch::Changes changes = search.changed(trial);
    const double difference = search.difference(changes);
    if (propagations_-- > 0) {
      out.hints = from.hints;
      for (const int slot : trial.slots) out.hints.push_back({slot, trial.sharding});
      out.slots = propagated(from.variant->graph, from.order, out.hints);
      const double by_propagation = search.difference(search.changes_to(out.slots));
      if (by_propagation <= difference)
        return by_propagation < trial.saved ? std::optional(std::move(out)) : std::nullopt;
    }
    if (difference >= trial.saved) return std::nullopt;
    out.hints = from.hints;
    out.slots = search.slots_after(changes);
    for (const auto& [slot, change] : changes) out.hints.push_back({slot, at(out.slots, slot).sharding});
    std::sort(out.hints.begin() + isize(from.hints), out.hints.end(),
              [](const PropagationHint& a, const PropagationHint& b) { return a.slot < b.slot; });
    return out;
  }

  // Returns true if it replaced `best` by a better outcome.
  bool improve(Outcome& best, ChangeSearch& search) {
    constexpr double kMostRatio = 0.999;
    constexpr double kMostWork = 1.001;
    if (evaluations_ <= 0) return false;
    search.start_from(best.slots);
    for (const ReshardTrial& trial : trials_for(*best.variant, best.result.resharded, memo_, machine_.links())) {
      if (!tried_.insert(trial.kind).second) continue;
      if (trials_-- <= 0) return false;
      auto other = changed(best, trial, search);
      if (!other) continue;
      if (evaluations_-- <= 0) return false;
      evaluate(*other, best.result.choices);
      improve_choices(*other);
      // Only the propagation orders may trade bytes for work.
      if (!(other->weight.all < kMostRatio * best.weight.all) || other->weight.moved > best.weight.moved) continue;
      if (other->weight.work > kMostWork * best.weight.work) continue;
      best = *std::move(other);
      return true;
    }
    return false;
  }

  const MachineModel& machine_;
  std::optional<double> memory_share_;
  std::vector<Variant> variants_;
  DecisionMemo memo_;
  ProgramEstimator estimator_;
  std::int64_t trials_ = 0;  // these numbers remain
  std::int64_t propagations_ = 0;
  std::int64_t evaluations_ = 0;
  std::set<std::vector<int>> tried_;
  Outcome best_;
  MachineModel equal_links_;  // on which ProgramEstimate::moved counts bytes
  ProgramEstimator byte_estimator_{equal_links_};
  std::map<std::string, NamedValue> values_by_name_;
};

}  // namespace

Propagated propagate_at_least_cost(const Program& program, const MachineModel& machine,
                                   std::optional<double> memory_share, bool compares) {
  const auto chooser = std::make_shared<Chooser>(program, machine, memory_share);
  Propagated out = compares ? chooser->choose() : chooser->first();
  if (!memory_share) out.alternatives = chooser;  // automatic shardings do not result from an order of propagation
  return out;
}

Program insert_chosen_reshards(const Program& program, const MachineModel& machine, const Propagated& found) {
  const bool is_found = program.computations == found.program.computations;
  return is_found ? found.resharded : insert_reshards(program, machine, found.choices);
}

Program insert_explained_reshards(const Program& program, const MachineModel& machine, const Propagated& found) {
  DecisionMemo memo(machine);
  memo.explain_choices();
  return insert_reshards(program, machine, found.choices, memo);
}

}  // namespace tessera

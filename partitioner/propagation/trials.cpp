// SPDX-License-Identifier: Apache-2.0
#include "propagation/trials.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string_view>

#include "explain/explain.h"
#include "normalize/manual.h"
#include "propagation/factor_sharding.h"
#include "propagation/propagate.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

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
std::optional<Sharding> as_read(const OpSignature& signature, int operand, const Sharding& sharding) {
  const OpView& view = signature.view;
  const bool all_arrays =
      std::all_of(view.operands.begin(), view.operands.end(), [](const Type& t) { return t.is_array(); });
  if (!view.result.is_array() || !all_arrays) return std::nullopt;
  const FactorMap& map = *signature.map;
  const Strategy implied = legal(map, project(map, at(map.operands, operand), sharding));
  Sharding out = unproject(sharding.mesh, map, map.results.front(), implied);
  return out.used_axes().empty() ? std::nullopt : std::optional(std::move(out));
}

// Whether the instruction belongs to a manual region; the axes of the region shard no dims.
bool is_in_region(const Instruction& instruction) {
  return instruction.frontend_attribute(kManualAxesAttribute) != nullptr;
}

class TrialFinder {
 public:
  TrialFinder(const Variant& variant, const Program& resharded, DecisionMemo& memo, const Topology& links)
      : variant_(variant), program_(resharded), memo_(memo), links_(links), names_(variant) {}

  std::vector<ReshardTrial> found() && {
    const auto used = partitioned_computations(program_);
    const auto counts = run_counts(program_);
    for (ComputationId c = 0; c < isize(program_.computations); ++c) {
      use_counts_ = program_[c].use_counts();
      for (Id id = 0; at(used, c) && at(counts, c) > 0 && id < program_[c].size(); ++id)
        for (int i = 0; i < isize(program_[c][id].operands); ++i) add_at(program_[c], id, i, at(counts, c));
    }
    std::stable_sort(all_.begin(), all_.end(),
                     [](const ReshardTrial& a, const ReshardTrial& b) { return a.cost > b.cost; });
    return std::move(all_);
  }

 private:
  // Adds trials if an operand is a reshard: one for the resharded value, one for the result of its consumer.
  void add_at(const Computation& computation, Id id, int operand, double count) {
    const Instruction& user = computation[id];
    const Instruction& copy = computation[at(user.operands, operand)];
    if (copy.op->role != Role::kCopy || !copy.type.is_array() || copy.operands.empty()) return;
    const Instruction& source = computation[copy.operands.front()];
    if (is_in_region(user) || is_in_region(copy) || is_in_region(source)) return;
    const Sharding& from = source.sharding->front();
    const Sharding& to = copy.sharding->front();
    if (from.is_partial() || to.is_partial() || !from.is_tiled() || !to.is_tiled()) return;
    const double cost = count * reshard_cost(copy.type, from, to, links_);
    if (cost <= 0) return;
    const OpSignature& consumer = memo_.signatures.of(program_, computation, user);
    const std::vector<int> kind{memo_.signatures.of(program_, computation, source).id, consumer.id, operand,
                                memo_.shardings.id_of(source.sharding), memo_.shardings.id_of(copy.sharding)};
    add(names_.free_slot(computation.name, source.name, copy.type), {cost, 0, {}, to, kind});
    const bool is_only_reader =
        copy.frontend_attribute(kAskedAttribute) != nullptr && at(use_counts_, at(user.operands, operand)) == 1;
    if (const auto result = as_read(consumer, operand, from))
      add(names_.free_slot(computation.name, user.name, user.type),
          {cost, is_only_reader ? cost : 0, {}, *result, kind});
  }

  void add(int slot, ReshardTrial trial) {
    if (slot < 0 || !(trial.sharding.mesh == variant_.graph.mesh) || !trial.sharding.manual.empty()) return;
    trial.kind.push_back(memo_.shardings.id_of(make_sharding(trial.sharding)));
    const auto [place, is_new] = places_.try_emplace(trial.kind, isize(all_));
    if (is_new)
      all_.push_back(std::move(trial));
    else
      at(all_, place->second).cost += trial.cost, at(all_, place->second).saved += trial.saved;
    auto& slots = at(all_, place->second).slots;
    if (std::find(slots.begin(), slots.end(), slot) == slots.end()) slots.push_back(slot);
  }

  const Variant& variant_;
  const Program& program_;
  DecisionMemo& memo_;
  const Topology& links_;
  Names names_;
  std::vector<int> use_counts_;  // in the current computation
  std::vector<ReshardTrial> all_;
  ByIds<int> places_;  // in `all_`, by kind
};

}  // namespace

std::vector<ReshardTrial> trials_for(const Variant& variant, const Program& resharded, DecisionMemo& memo,
                                     const Topology& links) {
  return TrialFinder(variant, resharded, memo, links).found();
}

}  // namespace tessera

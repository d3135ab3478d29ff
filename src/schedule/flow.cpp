// SPDX-License-Identifier: Apache-2.0
#include "flow.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <map>

#include "tessera/ops/structural.h"
#include "view.h"

namespace tessera::schedule {

int Flow::leaf_count(Id id) const {
  const auto [first, last] = slot_range(id);
  return last - first;
}

std::pair<int, int> Flow::slot_range(Id id) const {
  const int first = at(first_slot, id);
  return {first, id + 1 < isize(first_slot) ? at(first_slot, id + 1) : isize(slots)};
}

namespace {

// Determines which values must be in memory. The rest are read through views, or computed again by each reader (iota).
class Materialization {
 public:
  Materialization(const Flow& flow, bool look_through) : flow_(flow), computation_(*flow.computation) {
    tentative_.resize(computation_.instructions.size());
    needed_.assign(computation_.instructions.size(), !look_through);
    if (!look_through) return;
    for (Id id = 0; id < computation_.size(); ++id) set_tentative(id);
    needed_[static_cast<std::size_t>(computation_.root)] = true;
    for (Id id = computation_.size(); id-- > 0;) visit_operands(id);
    while (!settle()) continue;
    lay_out();
  }
  [[nodiscard]] bool needed(Id id) const { return at(needed_, id); }
  /// The layout of a value in its buffer, if it is not row-major.
  [[nodiscard]] std::optional<View> layout(Id id) const {
    const auto found = layouts_.find(id);
    return found == layouts_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  // The view of a value if every view that it depends on were followed.
  void set_tentative(Id id) {
    const OpKind kind = at(flow_.kinds, id);
    if (kind != OpKind::kView && kind != OpKind::kReshape) return;
    const Id operand = computation_[id].operands.front();
    const View below = at(tentative_, operand).value_or(row_major_view(computation_[operand].type.dims()));
    if (kind == OpKind::kView)
      at(tentative_, id) = view_through(at(flow_.views, id), below);
    else if (at(tentative_, operand) && computation_[id].type.dtype() == computation_[operand].type.dtype())
      at(tentative_, id) = reshape_view(below, computation_[id].type.dims());
  }

  void visit_operands(Id id) {
    const Instruction& reader = computation_[id];
    for (const Id operand : reader.operands)
      if (!can_look_through(id, operand)) at(needed_, operand) = true;
  }

  bool can_look_through(Id reader, Id operand) const {
    if (at(flow_.kinds, operand) == OpKind::kIota) return at(flow_.kinds, reader) == OpKind::kElementwise;
    switch (at(flow_.kinds, reader)) {
      case OpKind::kView: return true;
      case OpKind::kReshape:
        // A reshape without a view shares the operand's buffer, so the operand must have one.
        return at(tentative_, reader).has_value() && !at(needed_, reader);
      case OpKind::kElementwise: return !at(tentative_, operand) || worth_following(operand);
      default: break;
    }
    if (reads_from_the_beginning(at(flow_.views, reader)) && is_beginning(operand)) return true;
    const auto& view = at(tentative_, operand);
    return computation_[reader].op->reads_strides && !(view && (repeats(*view) || runs_backwards(*view)));
  }

  // Whether the value is the first rows of an array in memory, such as a vocabulary without its padding rows.
  bool is_beginning(Id id) const {
    const auto& view = at(tentative_, id);
    return at(flow_.kinds, id) == OpKind::kView && view && is_row_major(*view) &&
           !at(tentative_, computation_[id].operands.front());
  }

  // A reshape was accepted for the view that follows all views below it. If some of these values are in memory after
  // all, the reshape may not be able to follow the actual view; then the viewed value must be in memory too. Returns
  // whether all reshapes can be followed.
  bool settle() {
    std::vector<std::optional<View>> actual(tentative_.size());
    bool settled = true;
    for (Id id = 0; id < computation_.size(); ++id) {
      const OpKind kind = at(flow_.kinds, id);
      if ((kind != OpKind::kView || at(needed_, id)) && kind != OpKind::kReshape) continue;
      const Id operand = computation_[id].operands.front();
      const auto& below = at(actual, operand);
      if (kind == OpKind::kView) {
        at(actual, id) =
            view_through(at(flow_.views, id), below.value_or(row_major_view(computation_[operand].type.dims())));
        continue;
      }
      if (below) at(actual, id) = reshape_view(*below, computation_[id].type.dims());
      if (!below || at(actual, id)) continue;
      at(actual, need_viewed(operand)).reset();
      settled = false;
    }
    return settle_readers(actual) && settled;
  }

  // The same for kernels that read strides, but neither repeated elements nor backwards: two reverses that cancel each
  // other are one, if the first result is in memory.
  bool settle_readers(const std::vector<std::optional<View>>& actual) {
    bool settled = true;
    for (Id id = 0; id < computation_.size(); ++id) {
      const OpKind kind = at(flow_.kinds, id);
      if (kind == OpKind::kView || kind == OpKind::kReshape || kind == OpKind::kElementwise) continue;
      for (const Id operand : computation_[id].operands) {
        const auto& view = at(actual, operand);
        if (!view || (!repeats(*view) && !runs_backwards(*view))) continue;
        (void)need_viewed(operand);
        settled = false;
      }
    }
    return settled;
  }

  // The value must be in memory or, if it is a reshape, the value that it reads. Returns that value.
  Id need_viewed(Id id) {
    while (at(flow_.kinds, id) == OpKind::kReshape) id = computation_[id].operands.front();
    needed_[static_cast<std::size_t>(id)] = true;
    return id;
  }

  // A value that only a transpose reads is written in the transpose's layout if its op can write strides. Then no copy
  // is needed.
  void lay_out() {
    const std::vector<int> uses = computation_.use_counts();
    for (Id id = 0; id < computation_.size(); ++id) {
      const Instruction& move = computation_[id];
      if (move.op->movement != Movement::kTranspose || at(flow_.kinds, id) != OpKind::kView || !at(needed_, id))
        continue;
      const Id source = move.operands.front();
      if (!writes_strides(at(flow_.views, source)) || at(uses, source) != 1) continue;
      const Dims strides = row_major_strides(move.type.dims());
      const Dims& permutation = attributes_as<DimensionsAttributes>(move.attributes).dimensions;
      View layout = row_major_view(computation_[source].type.dims());
      for (std::size_t i = 0; i < permutation.size(); ++i) at(layout.strides, permutation[i]) = strides[i];
      layouts_.emplace(source, std::move(layout));
      needed_[static_cast<std::size_t>(id)] = false;
    }
  }

  // Whether strided reads by tiles are worthwhile: long rows or repeated elements are as fast as a copy, short rows are
  // not.
  bool worth_following(Id operand) const {
    constexpr std::int64_t kShortRun = 16;
    const View& view = *at(tentative_, operand);
    for (std::size_t d = view.dims.size(); d-- > 0;) {
      if (view.dims[d] == 1) continue;
      if (view.strides[d] == 0) return true;
      return view.strides[d] == 1 && (view.dims[d] >= kShortRun || product(view.dims) == view.dims[d]);
    }
    return true;
  }

  const Flow& flow_;
  const Computation& computation_;
  std::vector<std::optional<View>> tentative_;
  std::vector<bool> needed_;
  std::map<Id, View> layouts_;
};

class FlowBuilder {
 public:
  FlowBuilder(const Program& program, const Computation& computation, const ScheduleOptions& options) {
    flow_.program = &program;
    flow_.computation = &computation;
    flow_.views.reserve(computation.instructions.size());
    for (const Instruction& instruction : computation.instructions) {
      flow_.views.push_back(view_of(program, computation, instruction));
      flow_.kinds.push_back(kind_of(flow_.views.back()));
    }
    const Materialization materialization(flow_, options.look_through_views);
    flow_.in_memory.assign(computation.instructions.size(), false);
    for (Id id = 0; id < computation.size(); ++id) {
      add_slots(id, materialization.needed(id));
      if (auto layout = materialization.layout(id)) flow_.slots.back().view = std::move(layout);
    }
    flow_.consumers.resize(flow_.slots.size());
    flow_.is_result.assign(flow_.slots.size(), false);
    flow_.reads.resize(computation.instructions.size());
    flow_.waits.resize(computation.instructions.size());
    for (Id id = 0; id < computation.size(); ++id) add_reads(id);
    keep_effects_in_order();
    const auto [first, last] = flow_.slot_range(computation.root);
    for (int s = first; s < last; ++s) at(flow_.is_result, at(flow_.slots, s).origin) = true;
  }
  Flow take() { return std::move(flow_); }

 private:
  void add_slots(Id id, bool needed) {
    const Instruction& instruction = (*flow_.computation)[id];
    flow_.first_slot.push_back(isize(flow_.slots));
    const std::vector<Type> leaves = instruction.type.leaves();
    switch (at(flow_.kinds, id)) {
      case OpKind::kAlias: return alias_leaves(id, leaves);
      case OpKind::kReshape: return add_reshape(id);
      case OpKind::kView:
        if (!needed) return add_view(id);
        break;
      default: break;
    }
    if (instruction.op->role == Role::kWhile) return add_loop(id, leaves);
    const OpKind kind = at(flow_.kinds, id);
    flow_.in_memory[static_cast<std::size_t>(id)] =
        kind != OpKind::kParameter && kind != OpKind::kConstant && (kind != OpKind::kIota || needed);
    for (int leaf = 0; leaf < isize(leaves); ++leaf)
      flow_.slots.push_back({id, leaf, at(leaves, leaf), isize(flow_.slots), std::nullopt});
  }

  // A loop computes the leaves of its state that its body changes. The others are those of its operand.
  void add_loop(Id id, const std::vector<Type>& leaves) {
    flow_.in_memory[static_cast<std::size_t>(id)] = true;
    const Instruction& loop = (*flow_.computation)[id];
    const std::vector<bool> passed_on = unchanged_leaves((*flow_.program)[loop.called.back()]);
    const int first = flow_.slot_range(loop.operands.front()).first;
    for (int leaf = 0; leaf < isize(leaves); ++leaf) {
      const Slot given = at(flow_.slots, first + leaf);
      const bool is_same = leaf < isize(passed_on) && at(passed_on, leaf) && !given.view &&
                           !at(flow_.slots, given.origin).view && !flow_.is_recomputed(given.origin) &&
                           given.type.byte_size() == at(flow_.slots, given.origin).type.byte_size();
      flow_.slots.push_back({id, leaf, at(leaves, leaf), is_same ? given.origin : isize(flow_.slots), std::nullopt});
    }
  }
  // Which elements of its parameter the body passes on. Empty if an element is a tuple.
  static std::vector<bool> unchanged_leaves(const Computation& body) {
    const Instruction& root = body[body.root];
    const bool is_flat =
        root.op->role == Role::kTuple && body.parameters.size() == 1 && root.type.leaf_count() == isize(root.operands);
    std::vector<bool> out;
    for (int e = 0; is_flat && e < isize(root.operands); ++e) {
      const Instruction& next = body[at(root.operands, e)];
      out.push_back(next.op->role == Role::kGetTupleElement && next.operands.front() == body.parameters.front() &&
                    attributes_as<IndexAttributes>(next.attributes).index == e);
    }
    return out;
  }

  // Aliases the operands' slots in order or, for get-tuple-element, a range of them.
  void alias_leaves(Id id, const std::vector<Type>& leaves) {
    const Instruction& instruction = (*flow_.computation)[id];
    std::vector<int> sources;
    for (const Id operand : instruction.operands) {
      const auto [first, last] = flow_.slot_range(operand);
      for (int s = first; s < last; ++s) sources.push_back(s);
    }
    int skipped = 0;
    if (instruction.op->role == Role::kGetTupleElement)
      skipped = (*flow_.computation)[instruction.operands.front()].type.leaf_offset(
          attributes_as<IndexAttributes>(instruction.attributes).index);
    for (int leaf = 0; leaf < isize(leaves); ++leaf) {
      const Slot& source = at(flow_.slots, at(sources, skipped + leaf));
      Slot slot{id, leaf, at(leaves, leaf), source.origin, source.view};
      flow_.slots.push_back(std::move(slot));
    }
  }

  void add_reshape(Id id) {
    const Instruction& instruction = (*flow_.computation)[id];
    const Slot operand = flow_.slot(instruction.operands.front());
    Slot slot{id, 0, instruction.type, operand.origin, std::nullopt};
    if (operand.view) {
      slot.view = reshape_view(*operand.view, instruction.type.dims());
      ensure(slot.view.has_value(), "%{}: reshape of a view that strides cannot express", instruction.name);
    }
    flow_.slots.push_back(std::move(slot));
  }

  void add_view(Id id) {
    const Instruction& instruction = (*flow_.computation)[id];
    const Slot operand = flow_.slot(instruction.operands.front());
    View view = view_through(at(flow_.views, id), operand.view.value_or(row_major_view(operand.type.dims())));
    Slot slot{id, 0, instruction.type, operand.origin, std::nullopt};
    if (!is_row_major(view) || instruction.type.byte_size() != at(flow_.slots, operand.origin).type.byte_size())
      slot.view = std::move(view);
    flow_.slots.push_back(std::move(slot));
  }

  // Each instruction with a side effect waits for the previous one.
  void keep_effects_in_order() {
    const std::vector<bool> with_effects = computations_with_effects(*flow_.program);
    const Computation& computation = *flow_.computation;
    Id last = -1;
    for (Id id = 0; id < computation.size(); ++id) {
      flow_.has_effect.push_back(at(flow_.in_memory, id) && has_side_effect(computation[id], with_effects));
      if (!flow_.has_effect.back()) continue;
      if (last >= 0) at(flow_.waits, id).push_back(last);
      last = id;
    }
  }

  // Instructions after a barrier wait for all instructions before it.
  void wait_for_all(Id barrier) {
    auto& waits = at(flow_.waits, barrier);
    for (const Id operand : (*flow_.computation)[barrier].operands) {
      const auto [first, last] = flow_.slot_range(operand);
      for (int s = first; s < last; ++s) {
        const Id source = at(flow_.slots, at(flow_.slots, s).origin).id;
        if (at(flow_.in_memory, source) && std::find(waits.begin(), waits.end(), source) == waits.end())
          waits.push_back(source);
      }
    }
  }

  void add_reads(Id id) {
    const Instruction& instruction = (*flow_.computation)[id];
    auto& waits = at(flow_.waits, id);
    for (const Id before : instruction.control_predecessors) {
      if (at(flow_.in_memory, before)) waits.push_back(before);
      for (const Id further : at(flow_.waits, before))
        if (!at(flow_.in_memory, before)) waits.push_back(further);
    }
    for (const Id operand : instruction.operands)  // a control edge to an alias applies to its readers
      if (!at(flow_.in_memory, operand))
        for (const Id before : at(flow_.waits, operand)) waits.push_back(before);
    if (instruction.op->role == Role::kOptBarrier) wait_for_all(id);
    // Each once: with several paths through barriers, their number would double at each barrier.
    boost::unordered_flat_set<Id> seen;
    std::erase_if(waits, [&](Id before) { return !seen.insert(before).second; });
    if (!at(flow_.in_memory, id)) return;
    auto& reads = at(flow_.reads, id);
    for (const Id operand : instruction.operands) {
      const auto [first, last] = flow_.slot_range(operand);
      for (int s = first; s < last; ++s) {
        const int origin = at(flow_.slots, s).origin;
        if (flow_.is_recomputed(origin) || std::find(reads.begin(), reads.end(), origin) != reads.end()) continue;
        reads.push_back(origin);
        at(flow_.consumers, origin).push_back(id);
      }
    }
  }

  Flow flow_;
};

}  // namespace

Flow analyze_flow(const Program& program, const Computation& computation, const ScheduleOptions& options) {
  return FlowBuilder(program, computation, options).take();
}

}  // namespace tessera::schedule

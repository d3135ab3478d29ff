// SPDX-License-Identifier: Apache-2.0
// Changes an outcome of propagation where single ops would then cost less. The cost of an op between values of given
// shardings is computed once for equal ops, so a change costs as much time as the part of the program that it concerns.
#pragma once

#include "propagation/trials.h"
#include "strategy/program_estimate.h"

namespace tessera {

class ChangeSearch {
 public:
  ChangeSearch(const Variant& variant, DecisionMemo& memo, const ProgramEstimator& estimator,
               const MachineModel& machine);
  /// The outcome to which changed() refers.
  void start_from(const std::vector<PropagationSlot>& slots);
  /// The number of the sharding of each changed slot, and the edge through which the change came.
  struct Change {
    int sharding = 0;
    int edge = -1;
  };
  using Changes = boost::unordered_flat_map<int, Change>;
  /// The changes of a trial. Beginning at the values of the trial, the new shardings spread to the other values of each
  /// op, as long as the ops that read or write such a value do not cost more.
  Changes changed(const ReshardTrial& trial);
  /// Those between start_from() and other slots.
  Changes changes_to(const std::vector<PropagationSlot>& slots);
  /// The sum of the differences that the changes make to the cost of each op.
  double difference(const Changes& changes);
  /// The slots after the changes.
  [[nodiscard]] std::vector<PropagationSlot> slots_after(const Changes& changes) const;

 private:
  /// Offers the sharding of a changed slot to the other slots of its edges. Appends the slots that take it to `front`.
  void spread(int slot, Changes& changes, std::vector<int>& front);
  /// The shardings that a slot would get from another one: with the axes that it has already, and without.
  std::vector<int> suggested(int edge, int from, int to, const Changes& changes);
  /// Changes a slot; returns the difference at its edges.
  double difference(int slot, int sharding, Changes& changes);
  double cost_of(int edge, const Changes& changes);
  double cost_of_op(int edge, const Changes& changes);
  [[nodiscard]] double cost_of_flow(int edge, const Changes& changes) const;
  [[nodiscard]] double moved(int slot, const Sharding& from, const Sharding& to) const;
  [[nodiscard]] int id_of(int slot, const Changes& changes) const {
    const auto found = changes.find(slot);
    return found == changes.end() ? at(ids_, slot) : found->second.sharding;
  }
  [[nodiscard]] const Sharding& sharding_of(int slot, const Changes& changes) const {
    return memo_.shardings.of(id_of(slot, changes))->front();
  }

  const Program& program_;
  const PropagationGraph& graph_;
  DecisionMemo& memo_;
  const ProgramEstimator& estimator_;
  const MachineModel& machine_;
  std::vector<double> times_;                   // how often each edge's op runs
  std::vector<const OpSignature*> signatures_;  // of the edges that are ops, else null
  std::vector<bool> is_free_;                   // of the slots: propagation chose their shardings, outside of regions
  std::vector<PropagationSlot> slots_;
  std::vector<int> ids_;  // the shardings of the slots
  Interner<Type> types_;
  std::vector<int> key_;
  ByIds<double> known_;
};

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Decides how an op with given operand shardings is partitioned: which shardings it requires of its operands and which
// shardings its results have. Decisions are stored, because the layers of a model repeat the same requests.
#pragma once

#include <string>
#include <unordered_map>

#include "propagation/op_signatures.h"
#include "strategy/strategy.h"

namespace tessera {

struct OpRequest {
  const OpSignature& signature;
  std::vector<ShardingRef> operands;                  // current shardings, one per operand leaf
  std::vector<bool> rematerialized;                   // see StrategyRequest
  ShardingRef required;                               // the sharding that the consumers of the result require
  ShardingRef found;                                  // the sharding that propagation found for the result
  bool result_may_stay_partial = false;               // see choose_partial
  std::vector<std::vector<ShardingRef>> copies = {};  // see StrategyRequest; by operand leaf, or empty
  Axes manual = {};                                   // axes of the enclosing manual region
};

struct OpDecision {
  std::vector<Sharding> needed;  // one per operand leaf
  ShardingRef results;
  friend bool operator==(const OpDecision&, const OpDecision&) = default;
};

class OpDecisions {
 public:
  explicit OpDecisions(const CostModel& cost) : strategies_(cost) {}
  const OpDecision& decide(const Mesh& mesh, const OpRequest& request, SharedShardings& shardings);
  /// The second best strategy of the op, in words: `operands {data,-}, {-,-}: costs 256 bytes more`. "" if the op has
  /// only one strategy, or if the decision does not result from a comparison of strategies.
  std::string next_best(const Mesh& mesh, const OpRequest& request, const OpDecision& decision);
  /// Whether inserted reshards have the text of next_best().
  bool explains = false;

 private:
  Strategies strategies_;
  std::vector<int> key_;
  std::unordered_map<std::vector<int>, OpDecision, HashIds> known_;
};

/// The results that several runs of insert_reshards() for one machine share: the signatures of ops, and the decisions
/// for equal ops between equal shardings.
class DecisionMemo {
 public:
  explicit DecisionMemo(const MachineModel& machine)
      : balanced_cost_{.machine = machine}, least_work_cost_{.machine = machine, .least_work = true} {}
  DecisionMemo(const DecisionMemo&) = delete;
  DecisionMemo& operator=(const DecisionMemo&) = delete;
  /// See OpChoices::least_work.
  OpDecisions& decisions(bool least_work) { return least_work ? least_work_ : balanced_; }
  /// Whether an op for which `compare` was called since the last `forget` would have decided otherwise without knowing
  /// copies, or for the least work. If not, the program would be the same.
  void forget() { differs_without_copies = differs_with_later_copies = differs_with_least_work = false; }
  void compare(const Mesh& mesh, OpRequest request, const OpDecision& decision);
  /// The same for a request with the copies that later ops need.
  void compare_later(const Mesh& mesh, const OpRequest& request, const OpDecision& decision);
  bool differs_without_copies = false;
  bool differs_with_later_copies = false;
  bool differs_with_least_work = false;
  OpSignatures signatures;
  SharedShardings shardings;
  /// Lets the explanations of reshards name the second best strategy of the op.
  void explain_choices() { balanced_.explains = least_work_.explains = true; }

 private:
  CostModel balanced_cost_;
  CostModel least_work_cost_;
  OpDecisions balanced_{balanced_cost_};
  OpDecisions least_work_{least_work_cost_};
};

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Decides how an op with given operand shardings is partitioned: which shardings it requires of its operands and which
// shardings its results have. Decisions are stored, because the layers of a model repeat the same requests.
#pragma once

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
};

class OpDecisions {
 public:
  explicit OpDecisions(const CostModel& cost) : strategies_(cost) {}
  /// The decision is valid until the next call.
  const OpDecision& decide(const Mesh& mesh, const OpRequest& request, SharedShardings& shardings);

 private:
  Strategies strategies_;
  std::vector<int> key_;
  ByIds<OpDecision> known_;
};

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// How an op is partitioned when its operands lie as they do: what it needs of them and what comes out. Remembered, because the layers
// of a model ask for the same.
#pragma once

#include "propagation/op_signatures.h"
#include "strategy/strategy.h"

namespace tessera {

struct OpRequest {
  const OpSignature& signature;
  std::vector<ShardingRef> operands;                  // as they are, one per operand leaf
  std::vector<bool> rematerialized;                   // see StrategyRequest
  ShardingRef required;                               // what the result's users need
  ShardingRef found;                                  // the same by propagation
  bool result_may_stay_partial = false;               // see choose_partial
  std::vector<std::vector<ShardingRef>> copies = {};  // see StrategyRequest; by operand leaf, or empty
  Axes manual = {};                                   // of the region around
};

struct OpDecision {
  std::vector<Sharding> needed;  // one per operand leaf
  ShardingRef results;
};

class OpDecisions {
 public:
  explicit OpDecisions(const CostModel& cost) : strategies_(cost) {}
  const OpDecision& decide(const Mesh& mesh, const OpRequest& request, SharedShardings& shardings);

 private:
  Strategies strategies_;
  std::vector<int> key_;
  std::unordered_map<std::vector<int>, OpDecision, HashIds> known_;
};

}  // namespace tessera

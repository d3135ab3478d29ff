// SPDX-License-Identifier: Apache-2.0
// How one op is shared out: the axes of each factor, chosen by modelled cost of moving its operands, of its work per device and
// of moving its result to where propagation wants it.
#pragma once

#include <vector>

#include "pipeline/interner.h"
#include "propagation/factor_sharding.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// What the cost model assumes of a machine.
struct CostModel {
  Topology topology;
  double flops_per_second = 1e11;
  double memory_bytes_per_second = 2e10;
  /// Work decides before bytes do: not only what goes beyond the share that propagation gave a device.
  bool least_work = false;
};

struct StrategyRequest {
  const OpView& view;
  const FactorMap& map;
  const Mesh& mesh;
  std::vector<Sharding> operands;  // as they are, one per operand leaf
  std::vector<Sharding> required;  // one per result leaf: what its users need
  std::vector<Sharding> found;     // the same by propagation: the share of the work a device should have
  /// Axes an operand stays partial over: no factor may use them.
  Axes reserved;
  /// Operands that are made anew in whatever sharding is needed: they cost nothing and have no say.
  std::vector<bool> rematerialized;
  /// How operands lie as well, as copies that others needed: by operand leaf; empty: no copies.
  std::vector<std::vector<Sharding>> copies = {};
  /// The axes of a manual region around the op: not idle, and not the partitioner's.
  Axes manual = {};
};

Strategy choose_strategy(const StrategyRequest& request, const CostModel& cost = {});

/// choose_strategy that remembers: the layers of a model ask for the same.
class Strategies {
 public:
  explicit Strategies(const CostModel& cost) : cost_(cost) {}
  const Strategy& choose(const StrategyRequest& request);
  [[nodiscard]] const CostModel& cost() const { return cost_; }

 private:
  const CostModel& cost_;
  Interner<FactorMap> maps_;
  Interner<Type> types_;
  Interner<Sharding> shardings_;
  std::unordered_map<std::vector<int>, Strategy, HashIds> known_;
};

/// Leaf types of the operands, in FactorMap order.
std::vector<Type> operand_leaves(const OpView& view);
/// The result's sharding under a strategy: partial over the axes of its reduce factors.
Sharding computed_sharding(const Mesh& mesh, const FactorMap& map, int result_leaf, const Strategy& strategy);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Chooses how one op is sharded: the axes of each factor, by the modelled cost of resharding its operands, of its work
// per device and of resharding its result to the sharding that propagation found.
#pragma once

#include <optional>
#include <vector>

#include "pipeline/interner.h"
#include "propagation/factor_sharding.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// The costs by which strategies are compared.
struct CostModel {
  MachineModel machine{};
  /// Compare by work before bytes, even below the share of the work that propagation assigned to a device.
  bool least_work = false;
};

struct StrategyRequest {
  const OpView& view;
  const FactorMap& map;
  const Mesh& mesh;
  std::vector<Sharding> operands;  // current shardings, one per operand leaf
  std::vector<Sharding> required;  // the shardings that the consumers require, one per result leaf
  std::vector<Sharding> found;     // the shardings that propagation found; they define a device's share of the work
  /// Axes over which an operand stays partial: no factor may use them.
  Axes reserved;
  /// Operands that can be rematerialized in any sharding. They cost nothing and do not influence the choice.
  std::vector<bool> rematerialized;
  /// Additional shardings in which each operand leaf exists, because other consumers needed copies; empty if there are
  /// none.
  std::vector<std::vector<Sharding>> copies = {};
  /// The axes of the enclosing manual region: they are neither idle nor available to the partitioner.
  Axes manual = {};
};

/// Returns the candidate with the least cost.
Strategy choose_strategy(const StrategyRequest& request, const CostModel& cost = {});

/// The second best strategy, and its additional cost compared with the best one.
struct NextStrategy {
  Strategy best;
  Strategy next;
  double seconds = 0;  // modelled, if links differ or have a latency
  double bytes = 0;    // otherwise; below 0 if the best one is better only by its work
  double work = 0;     // operations beyond the share of a device
};
/// Nullopt if there is only one candidate.
std::optional<NextStrategy> next_strategy(const StrategyRequest& request, const CostModel& cost = {});

/// choose_strategy with stored results: the layers of a model repeat the same requests.
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

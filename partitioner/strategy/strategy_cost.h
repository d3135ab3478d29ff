// SPDX-License-Identifier: Apache-2.0
// The cost of a strategy of an op: resharding of its operands and result, and the work of each device.
//
//   dot [i,k {x}], [k {x},j] -> [i,j], strategy k over x:   no operand is resharded, half the work, then a sum over x
#pragma once

#include <compare>

#include "strategy/strategy.h"

namespace tessera {

/// If all links are equal, bytes decide between strategies whose work is within the share that propagation assigned to
/// the device: replicated work saves nothing, but padding of reduced dims and its mask add to the bytes. Ties are
/// resolved by the least work, then by the least resharding of operands, because the result may be resharded again
/// later. If the result must have a given sharding, ties prefer a strategy that computes the result in this sharding,
/// often in place.
struct StrategyCost {
  double surplus = 0;  // work beyond the device's share
  double moved = 0;
  double seconds = 0;
  double late = 0;
  auto operator<=>(const StrategyCost&) const = default;
};

/// `flops`: operations of the complete op; `share`: the operations that propagation assigned to a device.
StrategyCost strategy_cost(const StrategyRequest& request, const Strategy& strategy, double flops, double share,
                           const CostModel& cost);

/// The modelled time to reshard the operands, to compute, and to reshard the only result from `made` (including its
/// partial values) to the required sharding.
double strategy_seconds(const StrategyRequest& request, const Strategy& strategy, const Sharding& made,
                        const CostModel& cost);

/// The number of parts into which a strategy divides the work: 8 rows on 16 devices are 8 parts, 5 rows on 4 devices
/// are 2.5.
double parts_of(const FactorMap& map, const Strategy& strategy);
double parts_along(const Factor& factor, std::int64_t tiles);
/// The operations of an op; 0 if its row does not count them.
double flops_of_request(const StrategyRequest& request);
/// The sharding that the op requires of an operand of this type under a strategy (needed_operand).
Sharding needed_of(const StrategyRequest& request, int operand, const Type& type, const Strategy& strategy,
                   const CostModel& cost);

}  // namespace tessera

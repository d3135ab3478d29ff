// SPDX-License-Identifier: Apache-2.0
// What a strategy of an op costs: what moves to it and from it, and the work that every device then has.
//
//   dot [i,k {x}], [k {x},j] -> [i,j], strategy k over x:   no operand moves, half the work, a sum over x behind
#pragma once

#include <compare>

#include "strategy/strategy.h"

namespace tessera {

/// Where all links are alike bytes decide, among those with no more work than the share that propagation gave the device:
/// replicated work is no saving, but padding of what is reduced weighs against the bytes, with its mask. Of equal ones the least work.
/// Then the one that leaves operands where they are, for what a result becomes may not be wanted there in the end; where it is bound to
/// lie so, the one that makes it there, often in place.
struct StrategyCost {
  double surplus = 0;  // work beyond the share
  double moved = 0;
  double seconds = 0;
  double late = 0;
  auto operator<=>(const StrategyCost&) const = default;
};

/// `flops`: of the whole op; `share`: of them what propagation gave a device.
StrategyCost strategy_cost(const StrategyRequest& request, const Strategy& strategy, double flops, double share,
                           const CostModel& cost);

/// The modelled time to move the operands, to work, and to move the only result from how it is made (addends included) to where it is
/// required.
double strategy_seconds(const StrategyRequest& request, const Strategy& strategy, const Sharding& made,
                        const CostModel& cost);

/// Into how many parts a strategy cuts the work: 8 rows on 16 devices are 8 parts, 5 rows on 4 devices 2.5.
double parts_of(const FactorMap& map, const Strategy& strategy);
double parts_along(const Factor& factor, std::int64_t tiles);
/// 0 where the row counts none.
double flops_of_request(const StrategyRequest& request);
/// How the op needs an operand of this type under a strategy (needed_operand).
Sharding needed_of(const StrategyRequest& request, int operand, const Type& type, const Strategy& strategy,
                   const CostModel& cost);

}  // namespace tessera

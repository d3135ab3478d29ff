// SPDX-License-Identifier: Apache-2.0
#include "strategy/strategy_cost.h"

#include <algorithm>

#include "strategy/windows.h"
#include "strategy/work_seconds.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

double seconds_of_work(const StrategyRequest& request, const Strategy& strategy, double flops,
                       std::int64_t operand_bytes, const CostModel& cost) {
  const double parallel = parts_of(request.map, strategy);
  auto bytes = static_cast<double>(operand_bytes);
  const auto results = request.view.result.leaves();
  for (int i = 0; i < isize(request.map.results); ++i) {
    const Sharding sharding = unproject(request.mesh, request.map, at(request.map.results, i), strategy);
    bytes += static_cast<double>(shard_type(at(results, i), sharding).byte_size());
  }
  return work_seconds(request.view, request.map, strategy, flops / parallel, bytes, cost.machine);
}

// An annotation or the computation's result determines this sharding; propagation leaves dims open.
bool is_bound(const StrategyRequest& request) {
  if (request.required.size() != 1) return false;
  const auto& dims = request.required.front().dims;
  return std::none_of(dims.begin(), dims.end(), [](const DimSharding& dim) { return dim.open; });
}

// A rematerialized operand is complete wherever that helps.
Sharding current_operand(const StrategyRequest& request, int operand) {
  if (!at(request.rematerialized, operand)) return at(request.operands, operand);
  return unproject(request.mesh, request.map, at(request.map.operands, operand), Strategy(request.map.factors.size()));
}

HaloCost halo_cost_of(const StrategyRequest& request, const Strategy& strategy, const CostModel& cost) {
  std::vector<Sharding> current;
  if (!request.map.windows.empty())
    for (int i = 0; i < isize(request.operands); ++i) current.push_back(current_operand(request, i));
  return halo_cost(request.mesh, request.map, operand_leaves(request.view), strategy, current, cost.machine.links());
}

// The cost of resharding the operands: bytes, or seconds if the links differ.
double moved_operands(const StrategyRequest& request, const Strategy& strategy, const HaloCost& halo,
                      const CostModel& cost) {
  double moved = 0;
  const auto types = operand_leaves(request.view);
  for (int i = 0; i < isize(request.operands); ++i) {
    if (at(request.rematerialized, i) || !at(types, i).is_array()) continue;
    const Sharding needed = needed_of(request, i, at(types, i), strategy, cost);
    if (!request.copies.empty()) {
      const auto& there = at(request.copies, i);
      if (std::find(there.begin(), there.end(), needed) != there.end()) continue;
    }
    Sharding actual = at(request.operands, i);
    std::erase_if(actual.partial, [&](const AxisRef& axis) { return overlaps_any(request.reserved, axis); });
    if (!actual.is_partial()) actual.reduction = Reduction::kSum;
    moved += reshard_cost(at(types, i), actual, needed, cost.machine.links());
  }
  return moved + (cost.machine.links().is_uniform() ? static_cast<double>(halo.bytes) : halo.seconds);
}

// The cost of resharding a result whose computed sharding is `made`. If its dims are open, it may keep that sharding.
double moved_result(const StrategyRequest& request, int leaf, const Sharding& made, const CostModel& cost) {
  const Type type = request.view.result.leaves().at(static_cast<std::size_t>(leaf));
  if (!type.is_array()) return 0;
  const Sharding& required = at(request.required, leaf);
  const double moved = reshard_cost(type, made, required.closed(), cost.machine.links());
  if (!made.is_partial() || required.dims.empty() || !required.dims.front().open) return moved;
  return std::min(moved, reshard_cost(type, made, made.without_partial(), cost.machine.links()));
}

// The number of parts into which a strategy divides the work if padding of summed dims is no work. In a product,
// padding is work; in a reduction, a mask hides it.
double parts_but_for_sums(const StrategyRequest& request, const Strategy& strategy) {
  const FactorMap& map = request.map;
  const bool multiplies = std::count(request.rematerialized.begin(), request.rematerialized.end(), false) > 1;
  double parts = 1;
  for (int f = 0; f < isize(strategy); ++f) {
    const Factor& factor = at(map.factors, f);
    const std::int64_t tiles = tiles_of(strategy, f);
    const bool is_hidden = factor.kind == FactorKind::kReduce && !multiplies && tiles <= factor.size;
    parts *= is_hidden ? static_cast<double>(tiles) : parts_along(factor, tiles);
  }
  return parts;
}

// The operand elements that a device masks because a summed dim is sharded unevenly.
double masked_elements(const StrategyRequest& request, const Strategy& strategy) {
  double out = 0;
  const auto types = operand_leaves(request.view);
  for (int i = 0; i < isize(request.operands); ++i) {
    if (!at(types, i).is_array()) continue;
    const TensorFactors& factors = at(request.map.operands, i);
    const bool is_masked = std::any_of(factors.begin(), factors.end(), [&](const DimFactors& dim) {
      return std::any_of(dim.begin(), dim.end(), [&](int f) {
        const Factor& factor = at(request.map.factors, f);
        return factor.kind == FactorKind::kReduce && factor.size % tiles_of(strategy, f) != 0;
      });
    });
    if (!is_masked) continue;
    const Sharding sharding = unproject(request.mesh, request.map, factors, strategy);
    out += static_cast<double>(shard_type(at(types, i), sharding).element_count());
  }
  return out;
}

}  // namespace

double parts_along(const Factor& factor, std::int64_t tiles) {
  if (tiles <= 1 || factor.size == 0) return 1;
  return static_cast<double>(factor.size) / static_cast<double>(ceil_div(factor.size, tiles));
}

double parts_of(const FactorMap& map, const Strategy& strategy) {
  double parts = 1;
  for (int f = 0; f < isize(strategy); ++f) parts *= parts_along(at(map.factors, f), tiles_of(strategy, f));
  return parts;
}

double flops_of_request(const StrategyRequest& request) {
  return request.view.op.flops != nullptr ? static_cast<double>(request.view.op.flops(request.view)) : 0;
}

Sharding needed_of(const StrategyRequest& request, int operand, const Type& type, const Strategy& strategy,
                   const CostModel& cost) {
  if (request.map.windows.empty())
    return unproject(request.mesh, request.map, at(request.map.operands, operand), strategy);
  return needed_operand(request.mesh, request.map, operand, type, strategy, current_operand(request, operand),
                        cost.machine.links());
}

StrategyCost strategy_cost(const StrategyRequest& request, const Strategy& strategy, double flops, double share,
                           const CostModel& cost) {
  const HaloCost halo = halo_cost_of(request, strategy, cost);
  double moved = moved_operands(request, strategy, halo, cost);
  double late = moved;
  for (int i = 0; i < isize(request.required); ++i)
    moved += moved_result(request, i, computed_sharding(request.mesh, request.map, i, strategy), cost);
  if (is_bound(request)) late = moved - late;
  const double work = seconds_of_work(request, strategy, flops, halo.operand_bytes, cost);
  if (!cost.machine.links().is_uniform()) return {0, 0, moved + work, late};
  constexpr double kTolerance = 1.05;
  const double mine = flops / parts_of(request.map, strategy);
  if (mine <= kTolerance * share) return {0, moved, work, late};
  if (flops / parts_but_for_sums(request, strategy) > kTolerance * share) return {mine, moved, work, late};
  const double padding = mine - share + masked_elements(request, strategy);
  return {0, moved + padding, work, late};  // one operation costs as much as one byte
}

double strategy_seconds(const StrategyRequest& request, const Strategy& strategy, const Sharding& made,
                        const CostModel& cost) {
  const HaloCost halo = halo_cost_of(request, strategy, cost);
  const double moved = moved_operands(request, strategy, halo, cost) + moved_result(request, 0, made, cost);
  return cost.machine.seconds_of_moved(moved) +
         seconds_of_work(request, strategy, flops_of_request(request), halo.operand_bytes, cost);
}

}  // namespace tessera

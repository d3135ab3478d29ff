// SPDX-License-Identifier: Apache-2.0
#include "strategy/strategy.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "strategy/strategy_cost.h"
#include "strategy/windows.h"
#include "tessera/base/text.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

struct Tensor {
  const TensorFactors* factors;
  Sharding sharding;
  std::int64_t bytes;
};

std::vector<Tensor> tensors_of(const StrategyRequest& request) {
  std::vector<Tensor> out;
  const auto operand_types = operand_leaves(request.view);
  for (int i = 0; i < isize(request.operands); ++i)
    if (!at(request.rematerialized, i))
      out.push_back(
          {&at(request.map.operands, i), at(request.operands, i).without_partial(), at(operand_types, i).byte_size()});
  const auto result_types = request.view.result.leaves();
  for (int i = 0; i < isize(request.required); ++i)
    out.push_back(
        {&at(request.map.results, i), at(request.required, i).without_partial(), at(result_types, i).byte_size()});
  return out;
}

// Keeps only the largest of the tensors with equal factors and shardings if there are many tensors: the operands of a
// concatenation usually have equal shardings, and each would add an order to try.
std::vector<Tensor> without_echoes(std::vector<Tensor> tensors) {
  constexpr std::size_t kMany = 8;
  if (tensors.size() <= kMany) return tensors;
  std::vector<Tensor> out;
  for (const Tensor& tensor : tensors) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const Tensor& other) {
      return *other.factors == *tensor.factors && other.sharding == tensor.sharding;
    });
    if (same == out.end())
      out.push_back(tensor);
    else if (same->bytes < tensor.bytes)
      *same = tensor;
  }
  return out;
}

Strategy without(Strategy strategy, const Axes& reserved) {
  for (auto& axes : strategy) {
    const auto clash =
        std::find_if(axes.begin(), axes.end(), [&](const AxisRef& a) { return overlaps_any(reserved, a); });
    axes.erase(clash, axes.end());
  }
  return strategy;
}

// How to treat the axes of factors that must be replicated.
enum class BlockedAxes : std::uint8_t { kGathered, kMoved };

Strategy merged_in_order(const StrategyRequest& request, const FactorMap& map, const std::vector<Tensor>& tensors,
                         const std::vector<int>& order, BlockedAxes blocked) {
  Strategy out(map.factors.size());
  for (const int i : order) {
    const auto& tensor = at(tensors, i);
    if (!(tensor.sharding.mesh == request.mesh)) continue;
    Strategy proposed = project(map, *tensor.factors, tensor.sharding);
    if (blocked == BlockedAxes::kMoved) proposed = moved_to_kept(map, std::move(proposed));
    // Make each tensor's strategy legal before merging, so that an axis of a factor that must be replicated is free for
    // other factors.
    merge_into(out, legal(map, std::move(proposed)));
  }
  return legal(map, without(std::move(out), request.reserved));
}

// The orders in which tensors contribute to a strategy. For up to three tensors, all orders of all subsets; for more,
// each tensor first with the others by size, and each tensor alone.
std::vector<std::vector<int>> orders(const std::vector<Tensor>& tensors) {
  std::vector<int> by_size(tensors.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::vector<std::vector<int>> out{{}};
  if (tensors.size() <= 3) {
    std::vector<int> order = by_size;
    do
      for (std::size_t count = 1; count <= order.size(); ++count)
        out.emplace_back(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    while (std::next_permutation(order.begin(), order.end()));
    return out;
  }
  for (const int alone : by_size) out.push_back({alone});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return at(tensors, a).bytes > at(tensors, b).bytes; });
  for (const int first : by_size) {
    std::vector<int> order{first};
    for (const int i : by_size)
      if (i != first) order.push_back(i);
    out.push_back(std::move(order));
  }
  return out;
}

// A map in which dims with windows are blocked. Its strategies are the alternatives to halo exchanges.
FactorMap without_windows(FactorMap map) {
  for (const Window& window : map.windows) at(map.factors, window.factor).kind = FactorKind::kBlocked;
  return map;
}

// Whether an operand, gathered along a factor, is larger than the results, which would be summed otherwise.
bool is_larger_than_results(const StrategyRequest& request, int operand, int factor) {
  Sharding gathered = at(request.operands, operand).without_partial();
  const TensorFactors& factors = at(request.map.operands, operand);
  for (int d = 0; d < isize(factors); ++d)
    if (std::find(at(factors, d).begin(), at(factors, d).end(), factor) != at(factors, d).end())
      at(gathered.dims, d).axes.clear();
  std::int64_t results = 0;
  const auto types = request.view.result.leaves();
  for (int i = 0; i < isize(request.found); ++i)
    if (at(types, i).is_array())
      results += shard_type(at(types, i), at(request.found, i).without_partial()).byte_size();
  return shard_type(at(operand_leaves(request.view), operand), gathered).byte_size() > results;
}

// The axes that shard a summed factor, if all operands that have the factor are sharded along it into the same number
// of tiles; the axes need not be equal. A large operand without axes along the factor is sharded like the other
// operand. Returns nullopt if the numbers differ or if only axes in `taken` shard the factor.
std::optional<Axes> axes_of_sum(const StrategyRequest& request, int factor, const Axes& taken) {
  std::optional<Axes> found;
  int sharded_operand = -1;
  bool some_replicated = false;
  Axes elsewhere;  // axes that shard other dims of operands without axes along the factor
  for (int i = 0; i < isize(request.operands); ++i) {
    const TensorFactors& factors = at(request.map.operands, i);
    const bool has = std::any_of(factors.begin(), factors.end(), [&](const DimFactors& dim) {
      return std::find(dim.begin(), dim.end(), factor) != dim.end();
    });
    if (!has || at(request.rematerialized, i)) continue;
    const Sharding& sharding = at(request.operands, i);
    if (!(sharding.mesh == request.mesh)) return std::nullopt;
    const Strategy proposed = legal(request.map, project(request.map, factors, sharding));
    const Axes& axes = at(proposed, factor);
    if (std::any_of(axes.begin(), axes.end(), [&](const AxisRef& axis) { return overlaps_any(taken, axis); })) continue;
    if (axes.empty()) {
      some_replicated = true;
      const Axes used = sharding.used_axes();
      elsewhere.insert(elsewhere.end(), used.begin(), used.end());
      continue;
    }
    if (found && axes_size(*found) != axes_size(axes)) return std::nullopt;
    found = axes;
    sharded_operand = i;
  }
  if (!some_replicated || !found) return found;
  const bool free =
      std::none_of(found->begin(), found->end(), [&](const AxisRef& axis) { return overlaps_any(elsewhere, axis); });
  return free && is_larger_than_results(request, sharded_operand, factor) ? found : std::nullopt;
}

// The axes that propagation found for the factors of the result.
Strategy kept_as_found(const StrategyRequest& request) {
  Strategy kept(request.map.factors.size());
  for (int i = 0; i < isize(request.found); ++i)
    if (at(request.found, i).mesh == request.mesh)
      merge_into(kept, legal(request.map, project(request.map, at(request.map.results, i), at(request.found, i))));
  return legal(request.map, without(std::move(kept), request.reserved));
}

// Unused axes, or major parts of them, with the given number of devices in total.
std::optional<Axes> idle_axes(const Mesh& mesh, const Axes& used, std::int64_t devices) {
  Axes out;
  for (const bool exactly : {true, false})
    for (int a = 0; a < mesh.axis_count() && devices > 1; ++a) {
      const std::int64_t size = at(mesh.axes(), a).size;
      const std::int64_t part = std::gcd(size, devices);
      if (part == 1 || (exactly && size != devices) || overlaps_any(used, {a, 1, size})) continue;
      out.push_back({a, 1, part});
      devices /= part;
    }
  return devices == 1 ? std::optional(out) : std::nullopt;
}

// If one axis shards both a summed factor of the operands and the result, the sum keeps the axis, and idle axes shard
// the result meanwhile.
//   [i,k {x}], [k {x},j] -> [i {x},j], y idle:   i over y, k over x; summed over x, then resharded from y to x
std::optional<Strategy> with_idle_axes(const StrategyRequest& request) {
  Strategy out(request.map.factors.size());
  const Strategy kept = kept_as_found(request);
  Axes used = request.reserved;
  used.insert(used.end(), request.manual.begin(), request.manual.end());
  for (int f = 0; f < isize(request.map.factors); ++f) {
    if (at(request.map.factors, f).kind != FactorKind::kReduce) continue;
    for (const AxisRef& axis : axes_of_sum(request, f, used).value_or(Axes{})) {
      out[static_cast<std::size_t>(f)].push_back(axis);
      used.push_back(axis);
    }
  }
  const auto is_summed = [summed = all_axes(out)](const AxisRef& axis) { return overlaps_any(summed, axis); };
  const Axes wanted = all_axes(kept);
  if (std::none_of(wanted.begin(), wanted.end(), is_summed)) return std::nullopt;
  used.insert(used.end(), wanted.begin(), wanted.end());
  for (int f = 0; f < isize(request.map.factors); ++f) {
    if (at(request.map.factors, f).kind == FactorKind::kReduce) continue;
    Axes& axes = out[static_cast<std::size_t>(f)];
    axes = at(kept, f);
    if (std::none_of(at(kept, f).begin(), at(kept, f).end(), is_summed)) continue;
    const auto idle = idle_axes(request.mesh, used, axes_size(at(kept, f)));
    if (!idle) return std::nullopt;
    axes = *idle;
    used.insert(used.end(), idle->begin(), idle->end());
  }
  return legal(request.map, std::move(out));
}

// The number of parts into which the work is divided if the result has the sharding that propagation found and sums use
// the shardings of the operands. Sums do not use the axes of the result.
double parts_found(const StrategyRequest& request) {
  const Strategy kept = kept_as_found(request);
  const Axes taken = all_axes(kept);
  auto devices = request.mesh.device_count() / axes_size(request.manual) / axes_size(taken);
  double parts = parts_of(request.map, kept);
  for (int f = 0; f < isize(request.map.factors); ++f) {
    if (at(request.map.factors, f).kind != FactorKind::kReduce) continue;
    const auto tiles = std::min(axes_size(axes_of_sum(request, f, taken).value_or(Axes{})), devices);
    devices /= tiles;
    parts *= parts_along(at(request.map.factors, f), tiles);
  }
  return parts;
}

// Whether an axis may have to leave a factor: one that is blocked, or whose elements move without known windows. This
// does not count sums by unknown computations, because collective passes can turn their gathers into all-reduces.
bool has_blocked(const FactorMap& map) {
  for (int f = 0; f < isize(map.factors); ++f) {
    const FactorKind kind = at(map.factors, f).kind;
    if (kind == FactorKind::kBlocked || (kind == FactorKind::kPermute && !has_windows(map, f))) return true;
  }
  return false;
}

struct Candidates {
  std::vector<Strategy> all;
  double parts = 1;  // into which the strategy with idle axes divides the work
};

Candidates candidates_of(const StrategyRequest& request) {
  const auto tensors = without_echoes(tensors_of(request));
  Candidates out;
  std::vector<FactorMap> maps{request.map};
  if (!request.map.windows.empty()) maps.push_back(without_windows(request.map));
  const bool some_replicated = has_blocked(request.map);
  for (const auto& order : orders(tensors))
    for (const FactorMap& map : maps)
      for (const auto blocked : {BlockedAxes::kGathered, BlockedAxes::kMoved}) {
        Strategy candidate = merged_in_order(request, map, tensors, order, blocked);
        if (std::find(out.all.begin(), out.all.end(), candidate) == out.all.end())
          out.all.push_back(std::move(candidate));
        if (!some_replicated) break;
      }
  if (auto apart = with_idle_axes(request)) {
    out.parts = parts_of(request.map, *apart);
    out.all.push_back(*std::move(apart));
  }
  return out;
}

struct Ranked {
  StrategyCost cost;
  Strategy strategy;
  friend bool operator<(const Ranked& a, const Ranked& b) {
    return a.cost < b.cost || (a.cost == b.cost && a.strategy < b.strategy);
  }
};

std::vector<Ranked> with_costs(const StrategyRequest& request, const Candidates& candidates, const CostModel& cost) {
  const double flops = flops_of_request(request);
  double parts = std::max(parts_found(request), candidates.parts);
  if (cost.least_work)
    for (const Strategy& candidate : candidates.all) parts = std::max(parts, parts_of(request.map, candidate));
  const double share = flops / parts;
  std::vector<Ranked> out;
  for (const Strategy& candidate : candidates.all)
    out.push_back({strategy_cost(request, candidate, flops, share, cost), candidate});
  return out;
}

}  // namespace

std::vector<Type> operand_leaves(const OpView& view) {
  std::vector<Type> out;
  for (const auto& operand : view.operands)
    for (auto& leaf : operand.leaves()) out.push_back(std::move(leaf));
  return out;
}

Sharding computed_sharding(const Mesh& mesh, const FactorMap& map, int result_leaf, const Strategy& strategy) {
  Sharding out = unproject(mesh, map, at(map.results, result_leaf), strategy);
  out.partial = partial_axes(map, at(map.results, result_leaf), strategy);
  std::sort(out.partial.begin(), out.partial.end());
  out.partial = merged_axes(out.partial);
  if (out.is_partial()) out.reduction = map.reduction;
  return out;
}

Strategy choose_strategy(const StrategyRequest& request, const CostModel& cost) {
  const Candidates candidates = candidates_of(request);
  if (candidates.all.empty()) return Strategy(request.map.factors.size());
  if (candidates.all.size() == 1) return candidates.all.front();
  const std::vector<Ranked> all = with_costs(request, candidates, cost);
  return std::min_element(all.begin(), all.end())->strategy;
}

std::optional<NextStrategy> next_strategy(const StrategyRequest& request, const CostModel& cost) {
  std::vector<Ranked> all = with_costs(request, candidates_of(request), cost);
  std::sort(all.begin(), all.end());
  all.erase(
      std::unique(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.strategy == b.strategy; }),
      all.end());  // the one with idle axes may be equal to another
  if (all.size() < 2) return std::nullopt;
  const StrategyCost& best = all[0].cost;
  const StrategyCost& next = all[1].cost;
  NextStrategy out{all[0].strategy, all[1].strategy};
  if (!cost.machine.links().is_uniform())
    out.seconds = next.seconds - best.seconds;
  else
    out.bytes = next.moved - best.moved;
  out.work = next.surplus - best.surplus;
  return out;
}

const Strategy& Strategies::choose(const StrategyRequest& request) {
  std::vector<int> key{maps_.id_of(request.map), request.view.op.flops != nullptr ? 1 : 0};
  const auto flops = request.view.op.flops != nullptr ? request.view.op.flops(request.view) : 0;
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(flops));
  key.push_back(static_cast<int>(bits >> 32U));
  key.push_back(static_cast<int>(bits & 0xFFFFFFFFU));
  for (const Type& type : operand_leaves(request.view)) key.push_back(types_.id_of(type));
  for (const Type& type : request.view.result.leaves()) key.push_back(types_.id_of(type));
  for (const auto* shardings : {&request.operands, &request.required, &request.found})
    for (const Sharding& sharding : *shardings) key.push_back(shardings_.id_of(sharding));
  for (const bool made : request.rematerialized) key.push_back(made ? 1 : 0);
  for (const auto& there : request.copies) {
    key.push_back(-isize(there));
    for (const Sharding& sharding : there) key.push_back(shardings_.id_of(sharding));
  }
  Sharding reserved = Sharding::replicated(request.mesh, 0);
  reserved.partial = request.reserved;
  reserved.manual = request.manual;
  key.push_back(shardings_.id_of(reserved));
  const auto [entry, is_new] = known_.try_emplace(std::move(key));
  if (is_new) entry->second = choose_strategy(request, cost_);
  return entry->second;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "propagation/factor_sharding.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "strategy/windows.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// Whether several factors have windows along the dim. Then only one of them may be sharded; in other dims the factors
// split the dim.
bool is_shared_dim(const FactorMap& map, const DimFactors& dim) {
  return dim.size() > 1 && std::any_of(dim.begin(), dim.end(), [&](int factor) {
           return at(map.factors, factor).kind == FactorKind::kPermute;
         });
}

int largest_factor(const FactorMap& map, const DimFactors& dim) {
  return *std::max_element(dim.begin(), dim.end(),
                           [&](int a, int b) { return at(map.factors, a).size < at(map.factors, b).size; });
}

// Distributes a dim's axes over its factors, major to minor, as long as the sizes divide.
void project_split_dim(const FactorMap& map, const DimFactors& dim, const Axes& axes, Strategy& out) {
  std::size_t next = 0;
  std::int64_t rest = at(map.factors, dim[0]).size;  // the part of factor `next` that is not yet sharded
  for (AxisRef axis : axes) {
    while (axis.size > 1) {
      while (rest == 1 && next + 1 < dim.size()) rest = at(map.factors, dim[++next]).size;
      const std::int64_t part = std::gcd(axis.size, rest);
      if (part == 1) return;
      at(out, dim[next]).push_back({axis.axis, axis.pre, part});
      rest /= part;
      axis = {axis.axis, axis.pre * part, axis.size / part};
      if (rest > 1 && axis.size > 1) return;  // neither divides the other
    }
  }
}

}  // namespace

FactorMap factor_map(const OpView& view) {
  if (view.op.factors != nullptr) return view.op.factors(view);
  FactorMap map;
  const auto no_factors = [](const Type& leaf) {
    return TensorFactors(leaf.is_array() ? static_cast<std::size_t>(leaf.ndim()) : 0U);
  };
  for (const auto& operand : view.operands)
    for (const auto& leaf : operand.leaves()) map.operands.push_back(no_factors(leaf));
  for (const auto& leaf : view.result.leaves()) map.results.push_back(no_factors(leaf));
  return map;
}

Strategy project(const FactorMap& map, const TensorFactors& tensor, const Sharding& sharding) {
  Strategy out(map.factors.size());
  if (!sharding.is_tiled()) return out;
  for (int d = 0; d < isize(tensor) && d < sharding.ndim(); ++d) {
    const auto& dim = at(tensor, d);
    const auto& axes = at(sharding.dims, d).axes;
    if (dim.size() == 1)
      at(out, dim[0]) = axes;
    else if (is_shared_dim(map, dim))
      at(out, largest_factor(map, dim)) = axes;
    else if (!dim.empty())
      project_split_dim(map, dim, axes, out);
  }
  return out;
}

Sharding unproject(const Mesh& mesh, const FactorMap& map, const TensorFactors& tensor, const Strategy& strategy) {
  Sharding out = Sharding::replicated(mesh, isize(tensor));
  for (int d = 0; d < isize(tensor); ++d) {
    Axes axes;
    for (const int factor : at(tensor, d)) {
      const auto& more = at(strategy, factor);
      axes.insert(axes.end(), more.begin(), more.end());
      if (is_shared_dim(map, at(tensor, d)) ? !more.empty() : axes_size(more) < at(map.factors, factor).size) break;
    }
    at(out.dims, d).axes = merged_axes(axes);
  }
  return out;
}

namespace {

// If several factors share a dim, only the largest sharded one keeps its axes.
bool keep_one(const FactorMap& map, const DimFactors& dim, Strategy& strategy) {
  DimFactors sharded;
  std::copy_if(dim.begin(), dim.end(), std::back_inserter(sharded), [&](int f) { return !at(strategy, f).empty(); });
  if (sharded.size() < 2) return false;
  const int kept = largest_factor(map, sharded);
  for (const int factor : sharded)
    if (factor != kept) at(strategy, factor).clear();
  return true;
}

// In a dim of several factors, only the last sharded factor may be partly sharded, and the axes must divide each factor
// evenly.
bool trim_split_dims(const FactorMap& map, const TensorFactors& tensor, Strategy& strategy) {
  bool changed = false;
  for (const auto& dim : tensor) {
    if (dim.size() < 2) continue;
    if (is_shared_dim(map, dim)) {
      changed = keep_one(map, dim, strategy) || changed;
      continue;
    }
    bool closed = false;  // an earlier factor is not fully sharded
    for (const int factor : dim) {
      auto& axes = at(strategy, factor);
      const auto size = at(map.factors, factor).size;
      while (!axes.empty() && (closed || size % axes_size(axes) != 0)) {
        axes.pop_back();
        changed = true;
      }
      closed = closed || axes_size(axes) < size;
    }
  }
  return changed;
}

bool must_be_replicated(const FactorMap& map, int factor) {
  const auto kind = at(map.factors, factor).kind;
  return (kind == FactorKind::kPermute && !has_windows(map, factor)) || kind == FactorKind::kBlocked ||
         (kind == FactorKind::kReduce && !map.reduction_known);
}

}  // namespace

Strategy moved_to_kept(const FactorMap& map, Strategy strategy) {
  for (int replicated = 0; replicated < isize(strategy); ++replicated) {
    if (!must_be_replicated(map, replicated)) continue;
    for (const AxisRef& axis : std::exchange(at(strategy, replicated), {}))
      for (int f = 0; f < isize(strategy); ++f) {
        const Factor& factor = at(map.factors, f);
        if (factor.kind != FactorKind::kPass || factor.size % (tiles_of(strategy, f) * axis.size) != 0) continue;
        at(strategy, f).push_back(axis);
        break;
      }
  }
  return strategy;
}

Strategy legal(const FactorMap& map, Strategy strategy) {
  Axes used;
  for (int f = 0; f < isize(strategy); ++f) {
    auto& axes = at(strategy, f);
    if (must_be_replicated(map, f)) axes.clear();
    while (!axes.empty() && !windows_fit(map, f, axes_size(axes))) axes.pop_back();
    const auto clash = std::find_if(axes.begin(), axes.end(), [&](const AxisRef& a) { return overlaps_any(used, a); });
    axes.erase(clash, axes.end());
    used.insert(used.end(), axes.begin(), axes.end());
  }
  bool changed = true;
  while (changed) {
    changed = false;
    for (const auto* tensors : {&map.operands, &map.results})
      for (const auto& tensor : *tensors) changed = trim_split_dims(map, tensor, strategy) || changed;
  }
  return strategy;
}

void merge_into(Strategy& strategy, const Strategy& more) {
  Axes used = all_axes(strategy);
  for (int f = 0; f < isize(strategy); ++f) {
    auto& mine = at(strategy, f);
    const auto& theirs = at(more, f);
    if (theirs.size() <= mine.size() || !std::equal(mine.begin(), mine.end(), theirs.begin())) continue;
    for (std::size_t i = mine.size(); i < theirs.size(); ++i) {
      if (overlaps_any(used, theirs[i])) break;
      mine.push_back(theirs[i]);
      used.push_back(theirs[i]);
    }
  }
}

Axes partial_axes(const FactorMap& map, const TensorFactors& result, const Strategy& strategy) {
  Axes out;
  for (int f = 0; f < isize(strategy); ++f) {
    const bool is_kept = std::any_of(result.begin(), result.end(), [f](const DimFactors& dim) {
      return std::find(dim.begin(), dim.end(), f) != dim.end();
    });
    if (at(map.factors, f).kind == FactorKind::kReduce && !is_kept)
      out.insert(out.end(), at(strategy, f).begin(), at(strategy, f).end());
  }
  return out;
}

std::int64_t tiles_of(const Strategy& strategy, int factor) { return axes_size(at(strategy, factor)); }

Strategy strategy_of(const FactorMap& map, const std::vector<Sharding>& operands,
                     const std::vector<Sharding>& results) {
  Strategy out(map.factors.size());
  const auto read = [&](const std::vector<TensorFactors>& tensors, const std::vector<Sharding>& shardings) {
    for (int i = 0; i < isize(tensors) && i < isize(shardings); ++i)
      for (int d = 0; d < isize(at(tensors, i)) && d < at(shardings, i).ndim(); ++d)
        if (const auto& dim = at(at(tensors, i), d); dim.size() == 1)
          at(out, dim.front()) = at(at(shardings, i).dims, d).axes;
  };
  read(map.operands, operands);
  read(map.results, results);
  return out;
}

Axes all_axes(const Strategy& strategy) {
  Axes out;
  for (const auto& axes : strategy) out.insert(out.end(), axes.begin(), axes.end());
  return out;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The collectives that functions of shard_map call.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sharding/manual_scope.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/shard_map.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {

namespace {

// The regions around the code that is traced now, the innermost last.
std::vector<ManualRegion> regions_now() {
  const ManualScopes& scopes = manual_scopes();
  if (!scopes.regions.empty() || !scopes.enabled) return scopes.regions;
  return {*scopes.enabled};
}

}  // namespace

BoundAxes bound_axes(std::string_view name, const AxisNames& axes) {
  const auto regions = regions_now();
  require(!regions.empty(), "{}: axis \"{}\" has a meaning only in a function of shard_map", name,
          fmt::join(axes.names(), "+"));
  const ManualRegion& region = regions.back();
  BoundAxes out{region.mesh, {}};
  for (const std::string& axis_name : axes.names()) {
    AxisRef axis;
    try {
      axis = region.mesh.full_axis(axis_name);
    } catch (Error& error) {
      throw error.prefix(fmt::format("{}: {}: ", name, region.mesh.str()));
    }
    if (axis.size == 1) continue;
    const bool is_bound = std::any_of(regions.begin(), regions.end(),
                                      [&](const ManualRegion& one) { return overlaps_any(one.axes, axis); });
    require(is_bound, "{}: axis \"{}\" of {} is not in axis_names of this shard_map, so the partitioner handles it",
            name, axis_name, region.mesh);
    require(!overlaps_any(out.axes, axis), "{}: axis \"{}\" is named twice", name, axis_name);
    out.axes.push_back(axis);
  }
  return out;
}

namespace {

// After disable_manual_sharding(), other tensors may still be in the region.
void check_is_local(std::string_view name, Value x, const AxisNames& axes) {
  const ManualScopes& scopes = manual_scopes();
  if (!scopes.regions.empty() || !scopes.was_left || trace().in_function() || is_in_region(x)) return;
  fail("{}: axis \"{}\" has a meaning only in a function of shard_map, or for a tensor of enable_manual_sharding()",
       name, fmt::join(axes.names(), "+"));
}

/// Traces a collective. Over one device, `emit` is not called.
template <class F>
Tensor collective(std::string_view name, const Operand& x, const AxisNames& axes, F&& emit) {
  return in_context(name, {&x.tensor()}, x.where(), [&] {
    require(!x.is_number(), "needs a tensor, not the number {}; axis_size() is the number of devices", x.number());
    const BoundAxes bound = bound_axes(name, axes);
    return trace().record(x.where(), [&](Builder&) {
      const Value local = operand_value(x);
      check_is_local(name, local, axes);
      return emit(local, bound);
    });
  });
}

Tensor reduced(std::string_view name, const Operand& x, const AxisNames& axes, Reduction reduction) {
  return collective(name, x, axes, [&](Value v, const BoundAxes& bound) {
    return ops::all_reduce_over(v, reduction, bound.mesh, bound.axes);
  });
}

int dim_of(int dim, int ndim, std::string_view what) {
  const int d = dim < 0 ? dim + ndim : dim;
  require(d >= 0 && d < ndim, "{} {} is not a dim of an array with {} dim{}", what, dim, ndim, ndim == 1 ? "" : "s");
  return d;
}

Value with_dim(Value x, int dim, std::int64_t size) {
  Dims dims = x.type().dims();
  dims.insert(dims.begin() + dim, size);
  return ops::reshape(x, std::move(dims));
}
Value without_dim(Value x, int dim) {
  Dims dims = x.type().dims();
  dims.erase(dims.begin() + dim);
  return ops::reshape(x, std::move(dims));
}

// Moves dim `from` so that it becomes dim `to`.
Value moved(Value x, int from, int to) {
  if (from == to) return x;
  Dims permutation;
  for (int d = 0; d < x.type().ndim(); ++d)
    if (d != from) permutation.push_back(d);
  permutation.insert(permutation.begin() + to, from);
  return ops::transpose(x, std::move(permutation));
}

Value exchanged(Value x, int dim, const BoundAxes& bound) {
  if (bound.size() == 1) return x;
  return ops::all_to_all(x, dim, bound.groups(), ops::new_channel(*x.builder));
}

// The parts of `split` become the dim `split`, and are exchanged; then this dim is major in dim `concat`.
Value tiled_all_to_all(Value x, int split, int concat, const BoundAxes& bound) {
  const Dims dims = x.type().dims();
  Dims parts = dims;
  at(parts, split) /= bound.size();
  Dims apart = parts;
  apart.insert(apart.begin() + split, bound.size());
  const Value received = exchanged(ops::reshape(x, std::move(apart)), split, bound);
  at(parts, concat) *= bound.size();
  return ops::reshape(moved(received, split, concat), std::move(parts));
}

void check_pairs(const std::vector<std::pair<std::int64_t, std::int64_t>>& permutation, std::int64_t size) {
  std::set<std::int64_t> sources, targets;
  for (const auto& [source, target] : permutation) {
    require(source >= 0 && source < size && target >= 0 && target < size,
            "the pair ({}, {}) is outside of the axis, which has the coordinates 0 to {}", source, target, size - 1);
    require(sources.insert(source).second, "coordinate {} sends twice", source);
    require(targets.insert(target).second, "coordinate {} receives twice", target);
  }
}

}  // namespace

Tensor psum(Operand x, const AxisNames& axes) { return reduced("psum", x, axes, Reduction::kSum); }
Tensor pmax(Operand x, const AxisNames& axes) { return reduced("pmax", x, axes, Reduction::kMax); }
Tensor pmin(Operand x, const AxisNames& axes) { return reduced("pmin", x, axes, Reduction::kMin); }
Tensor pmean(Operand x, const AxisNames& axes) {
  return collective("pmean", x, axes, [&](Value v, const BoundAxes& bound) {
    require(is_float(v.type().dtype()), "the mean of {} would be truncated to an integer; convert it with .to() first",
            v.type());
    const Value total = ops::all_reduce_over(v, Reduction::kSum, bound.mesh, bound.axes);
    return ops::divide(total, constant_like(total, static_cast<double>(bound.size())));
  });
}

Tensor all_gather(Operand x, const AxisNames& axes, AllGatherOptions options) {
  return collective("all_gather", x, axes, [&](Value v, const BoundAxes& bound) {
    const int dim = dim_of(options.axis, v.type().ndim() + (options.tiled ? 0 : 1), "axis");
    if (!options.tiled) v = with_dim(v, dim, 1);
    return bound.size() == 1 ? v : ops::all_gather(v, dim, bound.groups(), ops::new_channel(*v.builder));
  });
}

Tensor psum_scatter(Operand x, const AxisNames& axes, PsumScatterOptions options) {
  return collective("psum_scatter", x, axes, [&](Value v, const BoundAxes& bound) {
    const int dim = dim_of(options.scatter_dimension, v.type().ndim(), "scatter_dimension");
    const std::int64_t size = v.type().dim(dim);
    require(options.tiled ? size % bound.size() == 0 : size == bound.size(),
            "dim {} of {} must have {} {}, the number of devices along {} of {}{}", dim, v.type(),
            options.tiled ? "a multiple of" : "the size", bound.size(), fmt::join(axes.names(), "+"), bound.mesh,
            options.tiled ? "" : "; with .tiled = true a multiple is enough");
    const Value part = bound.size() == 1
                           ? v
                           : ops::reduce_scatter(v, dim, Reduction::kSum, bound.groups(), ops::new_channel(*v.builder));
    return options.tiled ? part : without_dim(part, dim);
  });
}

Tensor all_to_all(Operand x, const AxisNames& axes, AllToAllOptions options) {
  return collective("all_to_all", x, axes, [&](Value v, const BoundAxes& bound) {
    const int split = dim_of(options.split_axis, v.type().ndim(), "split_axis");
    const int concat = dim_of(options.concat_axis, v.type().ndim(), "concat_axis");
    const std::int64_t size = v.type().dim(split);
    require(options.tiled ? size % bound.size() == 0 : size == bound.size(),
            "split_axis {} of {} must have {} {}, the number of devices along {} of {}", split, v.type(),
            options.tiled ? "a multiple of" : "the size", bound.size(), fmt::join(axes.names(), "+"), bound.mesh);
    if (options.tiled) return tiled_all_to_all(v, split, concat, bound);
    return moved(exchanged(v, split, bound), split, concat);
  });
}

Tensor ppermute(Operand x, const AxisNames& axes,
                const std::vector<std::pair<std::int64_t, std::int64_t>>& permutation) {
  return collective("ppermute", x, axes, [&](Value v, const BoundAxes& bound) {
    check_pairs(permutation, bound.size());
    SourceTargetPairs pairs;
    for (const auto& group : bound.mesh.groups(bound.axes))
      for (const auto& [source, target] : permutation) pairs.pairs.emplace_back(at(group, source), at(group, target));
    if (permutation.empty()) return constant_like(v, 0);
    if (bound.size() == 1) return v;
    return ops::collective_permute(v, std::move(pairs), ops::new_channel(*v.builder));
  });
}

// Each device takes its element of 0, 1, 2, …, so that no device number occurs in the program.
Tensor axis_index(const AxisNames& axes, std::source_location where) {
  return in_context("axis_index", {}, where, [&] {
    const BoundAxes bound = bound_axes("axis_index", axes);
    return trace().record(where, [&](Builder& builder) {
      Value index = ops::scalar(builder, DType::kS32, 0);
      for (const AxisRef& axis : bound.axes) {
        Value own = ops::iota(builder, Type::array(DType::kS32, {axis.size}), 0);
        for (const ManualRegion& region : regions_now()) {
          Sharding placement = Sharding::replicated(bound.mesh, 1);
          if (overlaps_any(region.axes, axis)) placement.dims.front().axes = {axis};
          own = ops::enter_region(own, placement, region);
        }
        const Value size = ops::scalar(builder, DType::kS32, static_cast<double>(axis.size));
        index = ops::add(ops::multiply(index, size), ops::reshape(own, {}));
      }
      return index;
    });
  });
}

std::int64_t axis_size(const AxisNames& axes) { return bound_axes("axis_size", axes).size(); }

}  // namespace tessera

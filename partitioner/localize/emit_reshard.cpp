// SPDX-License-Identifier: Apache-2.0
#include "localize/emit_reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "localize/device_numbers.h"
#include "reshard_planning/search_space.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace reshard {

Value pad_to(Value x, int dim, std::int64_t length) {
  const auto now = x.type().dim(dim);
  if (now >= length) return x;
  std::vector<PaddingDim> padding(static_cast<std::size_t>(x.type().ndim()));
  at(padding, dim).high = length - now;
  return ops::pad(x, ops::constant(*x.builder, Literal(Type::scalar(x.type().dtype()))), std::move(padding));
}

Value trim_to(Value x, int dim, std::int64_t length) {
  return x.type().dim(dim) > length ? ops::slice_dim(x, dim, 0, length) : x;
}

// Each device receives its new tile from a device that holds it: from itself if possible; the other holders are
// assigned in order.
Value emit_permute(Value local, const Placement& before, const Placement& after, std::int64_t channel) {
  const auto tile_key = [](const Sharding& sharding, std::int64_t device) {
    const auto position = sharding.mesh.position_of(device);
    Dims key;
    for (const auto& dim : sharding.dims) key.push_back(sharding.mesh.coordinate(position, dim.axes));
    key.push_back(sharding.mesh.coordinate(position, sharding.partial));
    key.push_back(sharding.mesh.coordinate(position, sharding.manual));
    return key;
  };
  const auto devices = before.sharding.mesh.device_count();
  std::map<Dims, std::vector<std::int64_t>> holders;
  std::vector<std::int64_t> waiting;
  SourceTargetPairs pairs;
  for (std::int64_t device = 0; device < devices; ++device) {
    const Dims key = tile_key(before.sharding, device);
    if (key == tile_key(after.sharding, device)) {
      pairs.pairs.emplace_back(device, device);
      continue;
    }
    holders[key].push_back(device);
    waiting.push_back(device);
  }
  std::map<Dims, std::size_t> assigned;
  for (const auto device : waiting) {
    const Dims key = tile_key(after.sharding, device);
    pairs.pairs.emplace_back(holders.at(key).at(assigned[key]++), device);
  }
  std::sort(pairs.pairs.begin(), pairs.pairs.end());
  return ops::collective_permute(local, std::move(pairs), channel);
}

Value emit_ring_permute(Value x, const std::vector<std::vector<std::int64_t>>& groups, std::int64_t channel) {
  SourceTargetPairs pairs;
  for (const auto& group : groups)
    for (std::size_t k = 0; k < group.size(); ++k) pairs.pairs.emplace_back(group[k], group[(k + 1) % group.size()]);
  std::sort(pairs.pairs.begin(), pairs.pairs.end());
  return ops::collective_permute(x, std::move(pairs), channel);
}

}  // namespace reshard

namespace {

using namespace reshard;

class StepEmitter {
 public:
  StepEmitter(ReshardEmitter& parent, const Type& global, const Placement& before, const ReshardStep& step)
      : builder_(parent.builder),
        next_channel_(parent.next_channel),
        notes_(parent.notes),
        global_(global),
        before_(before),
        after_{step.after, step.tiles},
        step_(step) {}

  Value emit(Value local) {
    switch (step_.kind) {
      case StepKind::kSlice: return slice(local);
      case StepKind::kAllGather: return all_gather(local);
      case StepKind::kAllToAll: {
        Value collective{};
        const Value out = emit_all_to_all(local, before_, after_, next_channel_++, collective);
        mark(collective);
        return out;
      }
      case StepKind::kPermute: return permute(local);
      case StepKind::kReduceScatter: return reduce_scatter(local);
      case StepKind::kAllReduce:
        return mark(ops::all_reduce(local, before_.sharding.reduction, groups(step_.axes), next_channel_++));
      case StepKind::kPartialize: return partialize(local);
      case StepKind::kRealign: return exchange(local, exchange_lengths(before_, after_, step_.dim));
      case StepKind::kIntersect: break;
    }
    return exchange(local,
                    count_pieces(before_, after_) ? exchange_even(before_, after_) : exchange_any(before_, after_));
  }

 private:
  [[nodiscard]] const Mesh& mesh() const { return before_.sharding.mesh; }
  [[nodiscard]] ReplicaGroups groups(const std::vector<AxisRef>& axes) const { return {mesh().groups(axes)}; }

  [[nodiscard]] NotesRef collective_notes() const {
    std::vector<std::string> names;
    for (const AxisRef& axis : step_.axes) names.push_back(step_.after.mesh.axis_text(axis));
    if (names.empty()) return notes_;
    return with_frontend_attribute(notes_, "tessera.axes", fmt::format("{}", fmt::join(names, "+")));
  }
  Value mark(Value collective) {
    builder_.set_notes(collective, collective_notes());
    return collective;
  }

  Value slice(Value local) {
    if (!after_.sharding.is_tiled()) return local;  // to maximal: the other devices' copies are ignored
    const Mesh& mesh = after_.sharding.mesh;
    std::vector<Value> starts;
    Dims sizes;
    bool is_sliced = false;
    for (int d = 0; d < global_.ndim(); ++d) {
      const DimPlacement& now = at(after_.dims, d);
      const auto before = at(before_.dims, d).tiles;
      sizes.push_back(now.length);
      if (now.tiles == before) {
        starts.push_back(ops::constant(builder_, Literal::scalar(std::int32_t{0})));
        continue;
      }
      is_sliced = true;
      local = pad_to(local, d, now.length * (now.tiles / before));
      const Value tile = emit_coordinate(builder_, mesh, minor_axes(at(after_.sharding.dims, d).axes, before));
      starts.push_back(
          ops::multiply(tile, ops::constant(builder_, Literal::scalar(static_cast<std::int32_t>(now.length)))));
    }
    return is_sliced ? ops::dynamic_slice(local, starts, sizes) : local;
  }

  Value all_gather(Value local) {
    const int d = step_.dim;
    const auto axes = minor_axes(at(before_.sharding.dims, d).axes, at(after_.dims, d).tiles);
    const DimPlacement& now = at(before_.dims, d);
    if (at(after_.dims, d).tiles == 1 && gathers_by_sum(global_.dtype(), now.size, now.length, now.tiles))
      return gather_by_sum(local, d, axes);
    const Value all = mark(ops::all_gather(local, d, groups(axes), next_channel_++));
    return trim_to(all, d, at(after_.dims, d).length);
  }

  // The padding is replaced by zeros, so the positions at which it is added do not matter.
  Value gather_by_sum(Value local, int d, const std::vector<AxisRef>& axes) {
    const DimPlacement& now = at(before_.dims, d);
    Dims dims = local.type().dims();
    const Value identity = ops::constant(builder_, partial_identity(global_.dtype(), Reduction::kSum));
    const Value start = ops::multiply(emit_coordinate(builder_, mesh(), axes), number(builder_, now.length));
    const Value left = ops::subtract(number(builder_, now.size), start);
    const Value here = ops::compare(ops::iota(builder_, Type::array(DType::kS32, dims), d), ops::splat(left, dims),
                                    CompareDirection::kLt);
    local = ops::select(here, local, ops::splat(identity, dims));
    at(dims, d) = ceil_div(now.size, now.length) * now.length;
    std::vector<Value> starts(dims.size(), number(builder_, 0));
    at(starts, d) = start;
    const Value placed = ops::dynamic_update_slice(ops::splat(identity, dims), local, starts);
    const Value all = mark(ops::all_reduce(placed, Reduction::kSum, groups(axes), next_channel_++));
    return trim_to(all, d, now.size);
  }

  Value reduce_scatter(Value local) {
    const int d = step_.dim;
    const DimPlacement& now = at(after_.dims, d);
    const auto axes = minor_axes(at(after_.sharding.dims, d).axes, at(before_.dims, d).tiles);
    local = pad_to(local, d, now.length * axes_size(axes));
    return mark(ops::reduce_scatter(local, d, before_.sharding.reduction, groups(axes), next_channel_++));
  }

  Value permute(Value local) {
    if (after_.sharding.kind == Sharding::Kind::kMaximal)
      return mark(
          ops::collective_permute(local, {{{before_.sharding.device, after_.sharding.device}}}, next_channel_++));
    return mark(emit_permute(local, before_, after_, next_channel_++));
  }

  // For min, max, and, or, all copies may stay. For sums and products, only the first device keeps the value.
  Value partialize(Value local) {
    const Sharding& now = after_.sharding;
    Value keeps{};
    if (before_.sharding.kind == Sharding::Kind::kMaximal) {
      const Value device = ops::partition_id(builder_);
      keeps = ops::compare(
          device, ops::constant(builder_, Literal::scalar(static_cast<std::uint32_t>(before_.sharding.device))),
          CompareDirection::kEq);
    } else {
      if (now.reduction != Reduction::kSum && now.reduction != Reduction::kProduct) return local;
      keeps = ops::compare(emit_coordinate(builder_, now.mesh, step_.axes),
                           ops::constant(builder_, Literal::scalar(std::int32_t{0})), CompareDirection::kEq);
    }
    const Value identity = ops::constant(builder_, partial_identity(global_.dtype(), now.reduction));
    return ops::select(keeps, local, ops::splat(identity, local.type().dims()));
  }

  Value exchange(Value local, const Exchange& exchange) {
    Dims dims;
    for (const DimPlacement& dim : after_.dims) dims.push_back(dim.length);
    return ExchangeEmitter{builder_, next_channel_, collective_notes(), mesh(), {local}}.emit(exchange, dims);
  }

  Builder& builder_;
  std::int64_t& next_channel_;
  NotesRef notes_;
  const Type& global_;
  const Placement& before_;
  Placement after_;
  const ReshardStep& step_;
};

}  // namespace

Value ReshardEmitter::emit(Value local, const ReshardPlan& plan) {
  Placement before = placement_of(plan.global, plan.from);
  for (const ReshardStep& step : plan.steps) {
    local = StepEmitter(*this, plan.global, before, step).emit(local);
    before = {step.after, step.tiles};
  }
  return local;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "collective_gradients.h"

#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/manual_region.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/placement.h"

namespace tessera::rows {
namespace {

const CollectiveAttributes& attributes_of(GradientContext& context) {
  require(context.operands.size() == 1, "the gradient of a collective with {} operands is not defined",
          context.operands.size());
  const auto& attributes = context.view.as<CollectiveAttributes>();
  require(attributes.dimensions.size() <= 1, "the gradient of a collective over several dims is not defined");
  return attributes;
}
int only_dimension(const CollectiveAttributes& attributes) {
  require(attributes.dimensions.size() == 1, "the gradient of a collective of tuples is not defined");
  return static_cast<int>(attributes.dimensions.front());
}

Reduction reduction_of(GradientContext& context) {
  const auto reduction = tessera::reduction_of(*context.view.called.front());
  require(reduction.has_value(), "the gradient is defined only for sum, min and max");
  return *reduction;
}

Value divided(Value x, std::int64_t count) {
  if (count == 1) return x;
  return ops::divide(
      x, ops::splat(ops::scalar(*x.builder, x.type().dtype(), static_cast<double>(count)), x.type().dims()));
}

// The devices whose value is the extreme one share the gradient equally.
Value extreme_gradient(GradientContext& context, const ReplicaGroups& groups) {
  const Value d = ops::sum_within(context.d_result(), groups);
  const Value is_extreme =
      ops::convert(ops::compare(context.operand(0), context.result, CompareDirection::kEq), d.type().dtype());
  return ops::divide(ops::multiply(d, is_extreme), ops::sum_within(is_extreme, groups));
}

}  // namespace

std::vector<Value> all_reduce_gradient(GradientContext& context) {
  const auto& groups = attributes_of(context).replica_groups;
  const Reduction reduction = reduction_of(context);
  if (reduction == Reduction::kSum) return {ops::sum_within(context.d_result(), groups)};
  require(reduction == Reduction::kMin || reduction == Reduction::kMax,
          "the gradient is defined only for sum, min and max");
  return {extreme_gradient(context, groups)};
}

std::vector<Value> all_gather_gradient(GradientContext& context) {
  const auto& attributes = attributes_of(context);
  return {ops::reduce_scatter(context.d_result(), only_dimension(attributes), Reduction::kSum,
                              attributes.replica_groups, ops::new_channel(context.builder))};
}

std::vector<Value> reduce_scatter_gradient(GradientContext& context) {
  const auto& attributes = attributes_of(context);
  require(reduction_of(context) == Reduction::kSum, "the gradient is defined only for sum");
  return {ops::all_gather(context.d_result(), only_dimension(attributes), attributes.replica_groups,
                          ops::new_channel(context.builder))};
}

// Part k of member m goes to member k as part m, so the exchange is its own inverse.
std::vector<Value> all_to_all_gradient(GradientContext& context) {
  const auto& attributes = attributes_of(context);
  return {ops::all_to_all(context.d_result(), only_dimension(attributes), attributes.replica_groups,
                          ops::new_channel(context.builder))};
}

std::vector<Value> permute_gradient(GradientContext& context) {
  require(context.operands.size() == 1, "the gradient of a collective with {} operands is not defined",
          context.operands.size());
  SourceTargetPairs inverse;
  for (const auto& [source, target] : context.view.as<PermuteAttributes>().source_target_pairs.pairs)
    inverse.pairs.emplace_back(target, source);
  return {ops::collective_permute(context.d_result(), std::move(inverse), ops::new_channel(context.builder))};
}

// A shard that enters along axes that do not divide it is used by all devices along these axes, so their gradients add
// up. An array that leaves is that of any device along such axes, so each of them gets an equal part of the gradient.
std::vector<Value> border_gradient(GradientContext& context) {
  const Instruction& border = context.result.instruction();
  const auto region = region_of_border(border);
  require(region.has_value(), "the gradient of a border of a manual region needs the attribute {}", kSdyManualAxes);
  if (manual_border(border) == ManualBorder::kEnter) {
    const Sharding placement = placement_at_entry(context.result);
    const Value total = ops::sum_within(context.d_result(), {region->mesh.groups(region->axes_not_in(placement))});
    return {ops::leave_region(total, context.operand(0).type(), placement, *region)};
  }
  const Sharding placement = border.sharding->front().closed();
  const Value local = ops::enter_region(context.d_result(), placement, *region);
  return {divided(local, axes_size(region->axes_not_in(placement)))};
}

}  // namespace tessera::rows

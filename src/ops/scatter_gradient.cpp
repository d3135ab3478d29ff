// SPDX-License-Identifier: Apache-2.0
// The gradient of scatter. An element of the result combines the element of the operand with all updates of it. The
// gradient of the element goes
//
//   if the scatter adds                      to the operand and to each update,
//   if it multiplies                         to each factor, times the product of the others,
//   if it takes the minimum or the maximum   to the elements that are equal to the result, in equal shares,
//   if it overwrites                         to the last update, or to the operand if there is none.
//
// Updates that the scatter drops have no gradient.
#include <algorithm>
#include <limits>

#include "index_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera::rows {
namespace {

// Where a scatter writes: its indices and attributes, for any operand and updates of these dims.
struct Places {
  Value indices;
  ScatterAttributes attributes;
  Dims operand;
  Dims updates;
  Dims window;  // the sizes of a window, one for each dim of the operand

  // The element of `from` at the place of each update; that of another place for updates that are dropped.
  [[nodiscard]] Value read(Value from) const {
    return ops::gather(from, indices,
                       {.offset_dims = attributes.update_window_dims,
                        .collapsed_slice_dims = attributes.inserted_window_dims,
                        .start_index_map = attributes.scatter_dims_to_operand_dims,
                        .operand_batching_dims = attributes.input_batching_dims,
                        .start_indices_batching_dims = attributes.scatter_indices_batching_dims,
                        .index_vector_dim = attributes.index_vector_dim,
                        .slice_sizes = window,
                        .indices_are_sorted = attributes.indices_are_sorted});
  }
  [[nodiscard]] Value combined(Value into, Value updated, Reduction reduction) const {
    const ComputationId combiner = ops::reduction_computation(into.builder->program(), reduction, into.type().dtype());
    return ops::scatter({into}, indices, {updated}, attributes, combiner);
  }
};

Places places_of(const GradientContext& context) {
  return {context.operand(1), context.view.as<ScatterAttributes>(), context.view.operands[0].dims(),
          context.view.operands[2].dims(), scatter_windows(context.view).sizes};
}

// x for the updates that are written, because their complete window is within the operand, and 0 for others.
Value where_written(const GradientContext& context, Value x) {
  const Windows windows = scatter_windows(context.view);
  if (windows.index_map.empty()) return x;
  const Dims dims = x.type().dims();
  const Value indices = widened_indices(context.operand(1));
  std::vector<Value> lasts;
  for (const auto d : windows.index_map) {
    const std::int64_t last = context.view.operands[0].dim(static_cast<int>(d)) - at(windows.sizes, d);
    lasts.push_back(index_constant(context.builder, indices.type().dtype(), last));
  }
  const Value inside = within(indices, full_like(indices, 0), along_components(indices, windows, lasts));
  return ops::select(spread_over_windows(inside, windows, dims), x, full_like(x, 0));
}

// ---- overwriting ---------------------------------------------------------------------------------------------------

bool has_complete_windows(const Windows& windows, const Dims& operand) {
  return std::all_of(windows.operand_dims.begin(), windows.operand_dims.end(), [&](std::int64_t d) {
    return at(windows.sizes, d) == at(operand, d) && windows.component_of(d) < 0;
  });
}

// Writes one element where `places` writes a complete window.
Places without_windows(Places places, const Windows& windows) {
  Dims kept = windows.dropped_dims;
  kept.insert(kept.end(), windows.operand_batching.begin(), windows.operand_batching.end());
  std::sort(kept.begin(), kept.end());
  const auto among_kept = [&](Dims& dims) {
    for (auto& d : dims) d = std::lower_bound(kept.begin(), kept.end(), d) - kept.begin();
  };
  ScatterAttributes& a = places.attributes;
  a.update_window_dims.clear();
  among_kept(a.inserted_window_dims);
  among_kept(a.scatter_dims_to_operand_dims);
  among_kept(a.input_batching_dims);
  const auto only = [](const Dims& sizes, const Dims& dims) {
    Dims out;
    for (const auto d : dims) out.push_back(at(sizes, d));
    return out;
  };
  places.operand = only(places.operand, kept);
  places.updates = only(places.updates, windows.batch_dims);
  places.window = Dims(kept.size(), 1);
  return places;
}

// Whether each update is the last one of its place. A scatter of the numbers of the windows, in the order in which they
// are written, keeps the largest number of each place.
Value is_last(const GradientContext& context) {
  Builder& builder = context.builder;
  const Windows windows = scatter_windows(context.view);
  const Places all = places_of(context);
  const Places one_each = without_windows(all, windows);
  const bool is_complete = has_complete_windows(windows, all.operand);
  const Places& places = is_complete ? one_each : all;
  const DType dtype = product(one_each.updates) <= std::numeric_limits<std::int32_t>::max() ? DType::kS32 : DType::kS64;
  Value numbers = row_major_index(builder, one_each.updates, dtype);
  if (!is_complete) numbers = ops::broadcast(numbers, all.updates, windows.batch_dims);
  const Value none = ops::full(builder, Type::array(dtype, places.operand), -1);
  const Value last = places.read(places.combined(none, numbers, Reduction::kMax));
  const Value found = ops::compare(last, numbers, CompareDirection::kEq);
  return is_complete ? ops::broadcast(found, all.updates, windows.batch_dims) : found;
}

std::vector<Value> gradient_overwritten(GradientContext& context) {
  const Places places = places_of(context);
  const Value d = context.d_result();
  std::vector<Value> out(3);
  if (context.needs(0))
    out[0] = ops::scatter({d}, places.indices, {full_like(context.operand(2), 0)}, places.attributes,
                          context.result.instruction().called[0]);
  if (!context.needs(2)) return out;
  const Value read = places.read(d);
  if (places.attributes.unique_indices)
    out[2] = where_written(context, read);
  else
    out[2] = ops::select(is_last(context), read, full_like(read, 0));
  return out;
}

// ---- reductions ----------------------------------------------------------------------------------------------------

std::vector<Value> gradient_added(GradientContext& context) {
  const Value d = context.d_result();
  return {d, {}, context.needs(2) ? where_written(context, places_of(context).read(d)) : Value{}};
}

// The product of the others is the quotient of the product by the update. The product leaves out the updates that are 0,
// which are counted instead: if one of the others is 0, the product of the others is 0.
std::vector<Value> gradient_of_products(GradientContext& context) {
  const Places places = places_of(context);
  const Value d = context.d_result();
  const Value x = context.operand(0);
  const Value updates = context.operand(2);
  std::vector<Value> out(3);
  if (context.needs(0)) out[0] = ops::multiply(d, places.combined(full_like(x, 1), updates, Reduction::kProduct));
  if (!context.needs(2)) return out;
  const Value is_zero = ops::compare(updates, full_like(updates, 0), CompareDirection::kEq);
  const Value divisor = ops::select(is_zero, full_like(updates, 1), updates);
  const Value zero = ops::convert(is_zero, updates.type().dtype());  // 1 if the update is 0
  const Value zeros = places.read(places.combined(full_like(x, 0), zero, Reduction::kSum));
  const Value others_are_not_zero = ops::compare(zeros, zero, CompareDirection::kEq);
  const Value product = ops::multiply(d, places.combined(x, divisor, Reduction::kProduct));
  const Value share = ops::divide(places.read(product), divisor);
  out[2] = where_written(context, ops::select(others_are_not_zero, share, full_like(share, 0)));
  return out;
}

std::vector<Value> gradient_of_extrema(GradientContext& context) {
  const Places places = places_of(context);
  const Value x = context.operand(0);
  const Value updates = context.operand(2);
  const DType dtype = x.type().dtype();
  const DType wide = dtype_size(dtype) < 4 ? DType::kF32 : dtype;
  const Value is_result = ops::compare(x, context.result, CompareDirection::kEq);
  const Value update_is_result = ops::compare(updates, places.read(context.result), CompareDirection::kEq);
  const Value own = ops::convert(is_result, wide);
  const Value count = places.combined(own, ops::convert(update_is_result, wide), Reduction::kSum);
  const Value d = ops::convert(context.d_result(), wide);
  // A result that is NaN equals none of its elements, so their count is 0.
  const Value share = ops::convert(ops::divide(d, ops::maximum(count, full_like(count, 1))), dtype);
  std::vector<Value> out(3);
  if (context.needs(0)) out[0] = ops::select(is_result, share, full_like(share, 0));
  if (context.needs(2)) {
    const Value read = places.read(share);
    out[2] = where_written(context, ops::select(update_is_result, read, full_like(read, 0)));
  }
  return out;
}

}  // namespace

std::vector<Value> gradient_scatter(GradientContext& context) {
  require(context.view.operands.size() == 3, "has a gradient only for one operand, not for {}",
          context.view.operands.size() / 2);
  const Computation& combiner = *context.view.called[0];
  if (is_overwrite(combiner)) return gradient_overwritten(context);
  const auto reduction = reduction_of(combiner);
  if (reduction == Reduction::kSum) return gradient_added(context);
  if (reduction == Reduction::kProduct) return gradient_of_products(context);
  const bool is_extremum = reduction == Reduction::kMin || reduction == Reduction::kMax;
  require(is_extremum,
          "has a gradient only when it adds, multiplies, takes the minimum or the maximum, or overwrites, not with "
          "combiner %{}",
          combiner.name);
  return gradient_of_extrema(context);
}

}  // namespace tessera::rows

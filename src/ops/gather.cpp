// SPDX-License-Identifier: Apache-2.0
// gather: windows of the operand at computed start indices, which are clamped such that each window is within the
// operand.
//
//   %rows = f32[4,64] gather(f32[1000,64] %table, s32[4] %ids), offset_dims={1}, collapsed_slice_dims={0},
//     start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}
//
// Shardings: batch dims, index dims and dims with complete windows pass; a one-wide indexed dim (the rows of an
// embedding table) may stay sharded: every device looks up the rows that it holds and returns zeros for others, and the
// result is partial.
#include <algorithm>
#include <optional>

#include "batch_rules.h"
#include "index_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {

Windows gather_windows(const OpView& view) {
  const auto& a = view.as<GatherAttributes>();
  Windows out{a.offset_dims,
              a.collapsed_slice_dims,
              a.start_index_map,
              a.operand_batching_dims,
              a.start_indices_batching_dims,
              a.index_vector_dim,
              a.slice_sizes,
              {},
              {},
              {}};
  out.complete(view.operands[0].ndim(), view.operands[1].ndim());
  return out;
}

namespace {

Type infer_gather(const OpView& view) {
  const Type& operand = array_operand(view, 0);
  const Type& indices = array_operand(view, 1);
  const auto& a = view.as<GatherAttributes>();
  require(
      isize(a.slice_sizes) == operand.ndim(), "slice_sizes {} must have one entry per dim of {}",
      [&] { return field_text(a.slice_sizes); }, operand);
  for (int d = 0; d < operand.ndim(); ++d) {
    const std::int64_t size = at(a.slice_sizes, d);
    require(size >= 0 && size <= operand.dim(d), "slice size {} of dim {} must be within 0 and {}", size, d,
            operand.dim(d));
    require(size <= 1 || (!contains(a.collapsed_slice_dims, d) && !contains(a.operand_batching_dims, d)),
            "dim {} is collapsed or batching, so its slice size must be 1, got {}", d, size);
  }
  const Windows windows = gather_windows(view);
  check_windows(windows, operand, indices,
                {"offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
                 "start_indices_batching_dims"});
  Dims dims(windows.index_dims.size() + windows.window_dims.size());
  for (std::size_t i = 0; i < windows.index_dims.size(); ++i)
    at(dims, windows.batch_dims[i]) = indices.dim(static_cast<int>(windows.index_dims[i]));
  for (std::size_t k = 0; k < windows.window_dims.size(); ++k)
    at(dims, windows.window_dims[k]) = at(windows.sizes, windows.operand_dims[k]);
  return declared_or(view, Type::array(operand.dtype(), std::move(dims)));
}

Literal evaluate_gather(const EvalContext& context) {
  const Windows windows = gather_windows(context.view);
  const Literal& operand = context.operands[0];
  Literal out(context.view.result);
  const Dims strides = row_major_strides(operand.type().dims());
  const Dims out_strides = row_major_strides(out.type().dims());
  Dims box;
  StridedSide from;
  StridedSide to;
  for (std::size_t k = 0; k < windows.operand_dims.size(); ++k) {
    box.push_back(at(windows.sizes, windows.operand_dims[k]));
    from.strides.push_back(at(strides, windows.operand_dims[k]));
    to.strides.push_back(at(out_strides, windows.window_dims[k]));
  }
  for_each_window(windows, context.operands[1], out.type(), [&](const Dims& start, std::int64_t offset) {
    from.offset = 0;
    for (int d = 0; d < isize(start); ++d)
      from.offset +=
          std::clamp<std::int64_t>(at(start, d), 0, operand.type().dim(d) - at(windows.sizes, d)) * at(strides, d);
    to.offset = offset;
    strided_copy(operand, from, out, to, box);
  });
  return out;
}

FactorMap factors_gather(const OpView& view) {
  FactorMap map;
  WindowFactors all = window_factors(map, gather_windows(view), view.operands[0], view.operands[1],
                                     OneWideDims::kReduced, FactorKind::kPass);
  map.operands = {std::move(all.operand), std::move(all.indices)};
  map.results = {std::move(all.result)};
  map.reduction = view.result.dtype() == DType::kPred ? Reduction::kOr : Reduction::kSum;
  return map;
}

Linearity linearity_gather(const OpView&, int operand) { return operand == 0 ? Linearity::kAny : Linearity::kNone; }

// The indices, clamped for the global operand.
Value clamped_indices(Value indices, const Windows& windows, const Type& operand) {
  const Value wide = widened_indices(indices);
  Builder& builder = *indices.builder;
  const DType dtype = wide.type().dtype();
  std::vector<Value> limits;
  for (const auto d : windows.index_map)
    limits.push_back(index_constant(builder, dtype, operand.dim(static_cast<int>(d)) - at(windows.sizes, d)));
  if (limits.empty()) return indices;
  if (limits.size() == 1) return ops::clamp(index_constant(builder, dtype, 0), wide, limits.front());
  return ops::clamp(ops::splat(index_constant(builder, dtype, 0), wide.type().dims()), wide,
                    along_components(wide, windows, limits));
}

// A shard smaller than the result is padded with a slice of zeros, which is read for rows on other devices. A mask over
// the result would cost more than this copy.
struct WithZeros {
  Value operand;
  Value indices;
};

std::optional<WithZeros> with_zeros(Value operand, Value indices, Value here, const Windows& windows,
                                    const Type& result) {
  if (windows.index_map.size() != 1 || operand.type().byte_size() > result.byte_size()) return std::nullopt;
  const auto dim = windows.index_map.front();
  std::vector<PaddingDim> padding(operand.type().dims().size());
  at(padding, dim).high = 1;
  Builder& builder = *operand.builder;
  const Value zero = ops::constant(builder, scalar_of(operand.type().dtype(), 0));
  const Value past_end = full_like(indices, static_cast<double>(operand.type().dim(static_cast<int>(dim))));
  return WithZeros{ops::pad(operand, zero, padding), ops::select(here, indices, past_end)};
}

Value localize_gather(LocalizeContext& context) {
  const Type& global = context.view.operands[0];
  const Value operand = context.operands[0];
  Value indices = context.operands[1];
  auto attributes = context.view.as<GatherAttributes>();
  const Windows windows = gather_windows(context.view);
  std::vector<Value> starts(windows.index_map.size(), ops::scalar(context.builder, DType::kS32, 0));
  std::vector<Value> lasts;
  for (const auto d : windows.index_map)
    lasts.push_back(
        index_constant(context.builder, DType::kS32, operand.type().dim(static_cast<int>(d)) - at(windows.sizes, d)));
  bool split = false;
  for (int d = 0; d < global.ndim(); ++d) {
    if (operand.type().dim(d) == global.dim(d) || windows.batch_of(d) >= 0) continue;
    const int component = windows.component_of(d);
    if (at(windows.sizes, d) == global.dim(d)) {
      at(attributes.slice_sizes, d) = operand.type().dim(d);
      if (component >= 0) at(lasts, component) = index_constant(context.builder, DType::kS32, 0);
      continue;
    }
    ensure(component >= 0 && at(windows.sizes, d) == 1, "gather: dim {} is sharded, but its window is {} wide", d,
           at(windows.sizes, d));
    at(starts, component) = context.start_of_operand(0, d);
    split = true;
  }
  if (!split) return ops::gather(operand, indices, std::move(attributes));
  indices = clamped_indices(indices, windows, global);
  if (indices.type().dtype() != DType::kS32) indices = ops::convert(indices, DType::kS32);
  indices = ops::subtract(indices, along_components(indices, windows, starts));
  const Value here = within(indices, full_like(indices, 0), along_components(indices, windows, lasts));
  if (const auto padded = with_zeros(operand, indices, here, windows, context.local_result()))
    return ops::gather(padded->operand, padded->indices, std::move(attributes));
  const Value found = ops::gather(operand, indices, std::move(attributes));
  return ops::select(spread_over_windows(here, windows, found.type().dims()), found, full_like(found, 0));
}

std::vector<Value> gradient_gather(GradientContext& context) {
  std::vector<Value> out(2);
  if (!context.needs(0)) return out;
  const auto& a = context.view.as<GatherAttributes>();
  const Value operand = context.operand(0);
  // scatter drops indices that gather clamps.
  const Value indices = clamped_indices(context.operand(1), gather_windows(context.view), context.view.operands[0]);
  const DType sum_type = context.sum_type(0);
  const ComputationId add = ops::reduction_computation(context.builder.program(), Reduction::kSum, sum_type);
  const Value zeros = ops::full(context.builder, operand.type().with_dtype(sum_type), 0);
  out[0] = ops::scatter({zeros}, indices, {ops::convert(context.d_result(), sum_type)},
                        {.update_window_dims = a.offset_dims,
                         .inserted_window_dims = a.collapsed_slice_dims,
                         .scatter_dims_to_operand_dims = a.start_index_map,
                         .input_batching_dims = a.operand_batching_dims,
                         .scatter_indices_batching_dims = a.start_indices_batching_dims,
                         .index_vector_dim = a.index_vector_dim,
                         .indices_are_sorted = a.indices_are_sorted},
                        add);
  return out;
}

}  // namespace

const OpDef kGather = {.name = "gather",
                       .min_operands = 2,
                       .max_operands = 2,
                       .reads_from_start = true,
                       .parse = parse_attributes<GatherAttributes>,
                       .infer = infer_gather,
                       .evaluate = evaluate_gather,
                       .gradient_kind = GradientKind::kFunction,
                       .gradient = gradient_gather,
                       .batch = batch_gather,
                       .factors = factors_gather,
                       .linearity = linearity_gather,
                       .localize = localize_gather,
                       .masks_padding = true,
                       .flops = no_flops};

}  // namespace rows

namespace ops {

Value gather(Value operand, Value start_indices, GatherAttributes attributes) {
  return operand.builder->emit(rows::kGather, {operand, start_indices}, make_attributes(std::move(attributes)));
}

Value take_rows(Value table, Value ids) {
  const int batch = ids.type().ndim();
  GatherAttributes attributes;
  attributes.collapsed_slice_dims = {0};
  attributes.start_index_map = {0};
  attributes.index_vector_dim = batch;
  attributes.slice_sizes = table.type().dims();
  require(!attributes.slice_sizes.empty(), "take_rows: the table must have dims, got {}", table.type());
  attributes.slice_sizes[0] = 1;
  for (int d = 1; d < table.type().ndim(); ++d) attributes.offset_dims.push_back(batch + d - 1);
  return gather(table, ids, std::move(attributes));
}

}  // namespace ops
}  // namespace tessera

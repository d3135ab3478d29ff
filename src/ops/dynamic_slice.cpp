// SPDX-License-Identifier: Apache-2.0
// dynamic-slice and dynamic-update-slice: a window at computed start indices, which are clamped such that it is within
// the operand.
//
//   %row = f32[1,64] dynamic-slice(f32[8,64] %x, s32[] %i, s32[] %zero), dynamic_slice_sizes={1,64}
//
// Shardings: dims with complete windows pass; a dim of window size 1 may stay sharded: the device with the element
// reads it (others add zero) or writes it. The operand of an update may be sharded along any dim: every device writes
// the part of the update that is in its shard.
#include <algorithm>

#include "batch_rules.h"
#include "index_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

void check_starts(const OpView& view, int first, int ndim) {
  require(isize(view.operands) - first == ndim, "needs one start index per dim: {} has {}, got {}", view.operands[0],
          ndim, isize(view.operands) - first);
  for (int i = first; i < isize(view.operands); ++i)
    require(is_index(scalar_operand(view, i, "a start index").dtype()), "a start index must be an integer, got {}",
            at(view.operands, i));
}

// The offset of the window's first element.
std::int64_t window_offset(const EvalContext& context, int first, const Dims& sizes) {
  const Dims& dims = context.operands[0].type().dims();
  const Dims strides = row_major_strides(dims);
  std::int64_t offset = 0;
  for (int d = 0; d < isize(dims); ++d) {
    const std::int64_t start = element_as_index(at(context.operands, first + d), 0);
    offset += std::clamp<std::int64_t>(start, 0, at(dims, d) - at(sizes, d)) * at(strides, d);
  }
  return offset;
}

// Start indices for this shard, and whether the one-wide windows of sharded dims are in it (null if no such dim is
// sharded).
struct LocalStarts {
  std::vector<Value> starts;
  Value here;
};
LocalStarts local_starts(LocalizeContext& context, int first, const Dims& sizes) {
  LocalStarts out{{context.operands.begin() + first, context.operands.end()}, {}};
  const Type& global = context.view.operands[0];
  const Type local = context.operands[0].type();  // a copy: emitting moves instructions
  for (int d = 0; d < global.ndim(); ++d) {
    if (local.dim(d) == global.dim(d) || at(sizes, d) == global.dim(d)) continue;
    ensure(at(sizes, d) == 1, "{}: dim {} is sharded, but its window is {} wide", context.view.op.name, d,
           at(sizes, d));
    const Value start =
        ops::subtract(clamped_start(at(out.starts, d), 1, global.dim(d)), context.start_of_operand(0, d));
    const Value here = within(start, ops::scalar(context.builder, DType::kS32, 0),
                              ops::scalar(context.builder, DType::kS32, static_cast<double>(local.dim(d) - 1)));
    out.here = out.here.is_null() ? here : ops::logical_and(out.here, here);
    at(out.starts, d) = start;
  }
  return out;
}

// ---- dynamic-slice -------------------------------------------------------------------------------------------------

const Dims& slice_sizes(const OpView& view) { return view.as<DynamicSliceAttributes>().dynamic_slice_sizes; }

Type infer_dynamic_slice(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Dims& sizes = slice_sizes(view);
  require(
      isize(sizes) == x.ndim(), "dynamic_slice_sizes {} must have one entry per dim of {}",
      [&] { return field_text(sizes); }, x);
  check_starts(view, 1, x.ndim());
  for (int d = 0; d < x.ndim(); ++d)
    require(at(sizes, d) >= 0 && at(sizes, d) <= x.dim(d), "slice size {} of dim {} must be within 0 and {}",
            at(sizes, d), d, x.dim(d));
  return declared_or(view, Type::array(x.dtype(), sizes));
}

Literal evaluate_dynamic_slice(const EvalContext& context) {
  const Dims& sizes = slice_sizes(context.view);
  Literal out(context.view.result);
  strided_copy(context.operands[0],
               {window_offset(context, 1, sizes), row_major_strides(context.operands[0].type().dims())}, out,
               {0, row_major_strides(sizes)}, sizes);
  return out;
}

FactorMap dynamic_slice_factors(const OpView& view) {
  const Type& x = view.operands[0];
  const Dims& sizes = slice_sizes(view);
  FactorMap map;
  TensorFactors in(x.dims().size());
  TensorFactors out(x.dims().size());
  for (int d = 0; d < x.ndim(); ++d) {
    if (x.dim(d) <= 1) continue;
    const bool covers_dim = at(sizes, d) == x.dim(d);
    at(in, d) = {map.add(
        x.dim(d), covers_dim ? FactorKind::kPass : (at(sizes, d) == 1 ? FactorKind::kReduce : FactorKind::kBlocked))};
    if (covers_dim)
      at(out, d) = at(in, d);
    else if (at(sizes, d) > 1)
      at(out, d) = {map.add(at(sizes, d), FactorKind::kBlocked)};
  }
  map.operands.assign(view.operands.size(), TensorFactors{});
  map.operands[0] = std::move(in);
  map.results = {std::move(out)};
  map.reduction = x.dtype() == DType::kPred ? Reduction::kOr : Reduction::kSum;
  return map;
}

Linearity dynamic_slice_linearity(const OpView&, int operand) {
  return operand == 0 ? Linearity::kAny : Linearity::kNone;
}

Value localize_dynamic_slice(LocalizeContext& context) {
  const Value x = context.operands[0];
  Dims sizes = slice_sizes(context.view);
  const LocalStarts local = local_starts(context, 1, sizes);
  for (int d = 0; d < isize(sizes); ++d)
    if (at(sizes, d) == context.view.operands[0].dim(d)) at(sizes, d) = x.type().dim(d);  // its start is clamped to 0
  const Value out = ops::dynamic_slice(x, local.starts, sizes);
  return local.here.is_null() ? out : or_zeros(local.here, out);
}

std::vector<Value> dynamic_slice_gradient(GradientContext& context) {
  std::vector<Value> out(context.operands.size());
  const std::vector<Value> starts(context.operands.begin() + 1, context.operands.end());
  if (context.needs(0))
    out[0] = ops::dynamic_update_slice(full_like(context.operand(0), 0), context.d_result(), starts);
  return out;
}

// ---- dynamic-update-slice ------------------------------------------------------------------------------------------

Type infer_dynamic_update_slice(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Type& update = array_operand(view, 1);
  require(x.dtype() == update.dtype(), "the update is {}, the operand {}", update, x);
  require(x.ndim() == update.ndim(), "the update {} must have as many dims as {}", update, x);
  for (int d = 0; d < x.ndim(); ++d)
    require(update.dim(d) <= x.dim(d), "dim {} of the update is {}, larger than the operand's {}", d, update.dim(d),
            x.dim(d));
  check_starts(view, 2, x.ndim());
  return declared_or(view, x);
}

Literal evaluate_dynamic_update_slice(const EvalContext& context) {
  Literal out = context.operands[0];
  const Literal& update = context.operands[1];
  const Dims& sizes = update.type().dims();
  strided_copy(update, {0, row_major_strides(sizes)}, out,
               {window_offset(context, 2, sizes), row_major_strides(out.type().dims())}, sizes);
  return out;
}

FactorMap dynamic_update_slice_factors(const OpView& view) {
  const Type& x = view.operands[0];
  const Type& update = view.operands[1];
  FactorMap map;
  TensorFactors full_factors(x.dims().size());
  TensorFactors update_factors(x.dims().size());
  for (int d = 0; d < x.ndim(); ++d) {
    if (x.dim(d) <= 1) continue;
    const bool same = update.dim(d) == x.dim(d);
    at(full_factors, d) = {map.add(x.dim(d))};
    if (same)
      at(update_factors, d) = at(full_factors, d);
    else if (update.dim(d) > 1)
      at(update_factors, d) = {map.add(update.dim(d), FactorKind::kBlocked)};
  }
  map.operands.assign(view.operands.size(), TensorFactors{});
  map.operands[0] = full_factors;
  map.operands[1] = std::move(update_factors);
  map.results = {std::move(full_factors)};
  return map;
}

Linearity dynamic_update_slice_linearity(const OpView&, int operand) {
  return operand < 2 ? Linearity::kJointlyLinear : Linearity::kNone;
}

// The part of an update for one shard, and which of its positions along the dim belong to the update.
struct UpdatePart {
  Value update;
  Value start;
  Value here;
};

// The part of a wide update that is in this shard along dim d: a window of the shard that contains it, at `start`.
//
//   update of 3 at 6, shard [4, 8) of 4:   start 1, here {f, t, t}, update {-, u0, u1}
UpdatePart part_of_update(LocalizeContext& context, Value update, Value start, int d) {
  Builder& builder = context.builder;
  const auto number = [&](std::int64_t value) { return index_constant(builder, DType::kS32, value); };
  const std::int64_t size = update.type().dim(d);
  const std::int64_t shard = context.operands[0].type().dim(d);
  const std::int64_t part = std::min(size, shard);
  const Value first =
      ops::subtract(clamped_start(start, size, context.view.operands[0].dim(d)), context.start_of_operand(0, d));
  const Value begin = ops::clamp(number(0), first, number(shard - part));
  const Value skipped = ops::subtract(begin, first);  // elements of the update before the part; may be negative
  const Type type = update.type();
  std::vector<PaddingDim> padding(type.dims().size());
  at(padding, d).low = at(padding, d).high = part;
  const Value padded = ops::pad(update, ops::constant(builder, scalar_of(type.dtype(), 0)), padding);
  Dims dims = type.dims();
  at(dims, d) = part;
  std::vector<Value> starts(dims.size(), number(0));
  at(starts, d) = ops::add(skipped, number(part));
  const Value positions =
      ops::add(ops::iota(builder, Type::array(DType::kS32, {part}), 0), ops::splat(skipped, {part}));
  const Value inside = within(positions, ops::splat(number(0), {part}), ops::splat(number(size - 1), {part}));
  return {ops::dynamic_slice(padded, starts, dims), begin, inside};
}

Value localize_dynamic_update_slice(LocalizeContext& context) {
  const Value x = context.operands[0];
  Value update = context.operands[1];
  const Type& global = context.view.operands[0];
  const Type shard = x.type();  // a copy: emitting moves instructions
  Dims narrow = context.view.operands[1].dims();
  std::vector<int> wide;
  for (int d = 0; d < global.ndim(); ++d) {
    if (shard.dim(d) == global.dim(d) || at(narrow, d) == 1 || at(narrow, d) == global.dim(d)) continue;
    wide.push_back(d);
    at(narrow, d) = global.dim(d);  // local_starts() leaves this dim alone
  }
  LocalStarts local = local_starts(context, 2, narrow);
  std::vector<Value> inside;
  for (const int d : wide) {
    UpdatePart part = part_of_update(context, update, at(local.starts, d), d);
    update = part.update;
    at(local.starts, d) = part.start;
    inside.push_back(part.here);
  }
  const Dims dims = update.type().dims();
  Value here = wide.empty() || local.here.is_null() ? local.here : ops::splat(local.here, dims);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const Value along = ops::broadcast(inside[i], dims, {wide[i]});
    here = here.is_null() ? along : ops::logical_and(here, along);
  }
  if (!here.is_null())  // other elements are written back
    update = ops::select(here, update, ops::dynamic_slice(x, local.starts, dims));
  return ops::dynamic_update_slice(x, update, local.starts);
}

std::vector<Value> dynamic_update_slice_gradient(GradientContext& context) {
  std::vector<Value> out(context.operands.size());
  const std::vector<Value> starts(context.operands.begin() + 2, context.operands.end());
  const Value update = context.operand(1);
  if (context.needs(0)) out[0] = ops::dynamic_update_slice(context.d_result(), full_like(update, 0), starts);
  if (context.needs(1)) out[1] = ops::dynamic_slice(context.d_result(), starts, update.type().dims());
  return out;
}

}  // namespace

const OpDef kDynamicSlice = {.name = "dynamic-slice",
                             .min_operands = 1,
                             .max_operands = -1,
                             .takes_a_part = true,
                             .reads_from_start = true,
                             .parse = parse_attributes<DynamicSliceAttributes>,
                             .infer = infer_dynamic_slice,
                             .evaluate = evaluate_dynamic_slice,
                             .gradient_kind = GradientKind::kFunction,
                             .gradient = dynamic_slice_gradient,
                             .batch = batch_dynamic_slice,
                             .factors = dynamic_slice_factors,
                             .linearity = dynamic_slice_linearity,
                             .localize = localize_dynamic_slice,
                             .masks_padding = true,
                             .flops = no_flops};

const OpDef kDynamicUpdateSlice = {.name = "dynamic-update-slice",
                                   .min_operands = 2,
                                   .max_operands = -1,
                                   .updates_operand_in_place = true,
                                   .infer = infer_dynamic_update_slice,
                                   .evaluate = evaluate_dynamic_update_slice,
                                   .gradient_kind = GradientKind::kFunction,
                                   .gradient = dynamic_update_slice_gradient,
                                   .batch = batch_dynamic_update_slice,
                                   .factors = dynamic_update_slice_factors,
                                   .linearity = dynamic_update_slice_linearity,
                                   .localize = localize_dynamic_update_slice,
                                   .flops = no_flops};

}  // namespace rows

namespace ops {
namespace {
std::vector<Value> joined(std::vector<Value> first, const std::vector<Value>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}
}  // namespace

Value dynamic_slice(Value x, const std::vector<Value>& starts, Dims sizes) {
  return x.builder->emit(rows::kDynamicSlice, joined({x}, starts),
                         make_attributes(DynamicSliceAttributes{std::move(sizes)}));
}
Value dynamic_update_slice(Value x, Value update, const std::vector<Value>& starts) {
  return x.builder->emit(rows::kDynamicUpdateSlice, joined({x, update}, starts));
}
}  // namespace ops
}  // namespace tessera

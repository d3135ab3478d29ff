// SPDX-License-Identifier: Apache-2.0
//   %c = f32[5,3] concatenate(%a, %b), dimensions={0}     %a f32[2,3], %b f32[3,3]
#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/base/checked.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

std::int64_t joined_dim(const OpView& view) { return view.as<DimensionsAttributes>().dimensions.front(); }

Type infer_concatenate(const OpView& view) {
  const Type& first = array_operand(view, 0);
  const Dims& dimensions = view.as<DimensionsAttributes>().dimensions;
  require(dimensions.size() == 1, "dimensions={} must name one dim", [&] { return field_text(dimensions); });
  check_dim(dimensions[0], first.ndim(), "dimension");
  Dims dims = first.dims();
  Checked size = at(dims, dimensions[0]);
  for (int i = 1; i < isize(view.operands); ++i) {
    const Type& part = array_operand(view, i);
    require(part.dtype() == first.dtype(), "operand {} is {}, operand 0 is {}", i, part, first);
    require(part.ndim() == first.ndim(), "operand {} has {} dims, operand 0 has {}", i, part.ndim(), first.ndim());
    for (int d = 0; d < first.ndim(); ++d)
      require(d == dimensions[0] || part.dim(d) == first.dim(d), "dim {} of operand {} is {}, of operand 0 {}", d, i,
              part.dim(d), first.dim(d));
    size += at(part.dims(), dimensions[0]);
  }
  require(size.fits(), "dim {}: the {} operands together have more elements than 64 bits can count", dimensions[0],
          view.operands.size());
  at(dims, dimensions[0]) = size.value();
  return declared_or(view, Type::array(first.dtype(), std::move(dims)));
}

Literal evaluate_concatenate(const EvalContext& context) {
  Literal out(context.view.result);
  const auto dim = joined_dim(context.view);
  StridedSide target{0, row_major_strides(out.type().dims())};
  for (const Literal& part : context.operands) {
    const Dims& dims = part.type().dims();
    strided_copy(part, {0, row_major_strides(dims)}, out, target, dims);
    target.offset += at(dims, dim) * at(target.strides, dim);
  }
  return out;
}

FactorMap factors_concatenate(const OpView& view) {
  FactorMap map;
  map.results = {add_factors(map, view.result)};
  at(map.factors, joined_dim(view)).kind = FactorKind::kPermute;
  map.operands.assign(view.operands.size(), map.results.front());
  const auto dim = static_cast<int>(joined_dim(view));
  std::int64_t before = 0;
  for (int i = 0; i < isize(view.operands); ++i) {
    map.windows.push_back({.operand = i, .dim = dim, .factor = dim, .low = before});
    before += at(view.operands, i).dim(dim);
  }
  return map;
}

// If the concatenated dim is sharded, every operand has the size of the result's shard, and each provides its own
// elements.
Value localize_concatenate(LocalizeContext& context) {
  const auto dim = static_cast<int>(joined_dim(context.view));
  if (context.window(0, dim) == nullptr) return emit_local(context, context.operands, context.view.attributes);
  Builder& builder = context.builder;
  const Dims& dims = context.local_result().dims();
  const Value index = ops::iota(builder, Type::array(DType::kS32, dims), dim);
  const Value here = ops::add(index, ops::splat(context.start_of_result(dim), dims));
  Value out = context.operands.front();
  std::int64_t before = 0;
  for (int i = 1; i < isize(context.operands); ++i) {
    before += at(context.view.operands, i - 1).dim(dim);
    const Value limit = ops::splat(ops::scalar(builder, DType::kS32, static_cast<double>(before)), dims);
    out = ops::select(ops::compare(here, limit, CompareDirection::kLt), out, at(context.operands, i));
  }
  return out;
}

std::vector<Value> gradient_concatenate(GradientContext& c) {
  std::vector<Value> out(c.operands.size());
  const auto dim = static_cast<int>(joined_dim(c.view));
  std::int64_t start = 0;
  for (int i = 0; i < isize(c.operands); ++i) {
    const std::int64_t limit = start + at(c.view.operands, i).dim(dim);
    if (c.needs(i)) at(out, i) = ops::slice_dim(c.d_result(), dim, start, limit);
    start = limit;
  }
  return out;
}

Linearity linearity_concatenate(const OpView& view, int) {
  return view.operands.size() == 1 ? Linearity::kAny : Linearity::kJointlyLinear;
}

}  // namespace

const OpDef kConcatenate{
    .name = "concatenate",
    .min_operands = 1,
    .max_operands = -1,
    .parse = parse_attributes<DimensionsAttributes>,
    .infer = infer_concatenate,
    .evaluate = evaluate_concatenate,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_concatenate,
    .batch = batch_dimensions,
    .factors = factors_concatenate,
    .linearity = linearity_concatenate,
    .localize = localize_concatenate,
    .flops = no_flops,
};

}  // namespace rows

Value ops::concatenate(const std::vector<Value>& parts, int dim) {
  require(!parts.empty(), "concatenate: needs at least one operand");
  return parts.front().builder->emit(rows::kConcatenate, parts, make_attributes(DimensionsAttributes{{dim}}));
}

}  // namespace tessera

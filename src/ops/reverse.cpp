// SPDX-License-Identifier: Apache-2.0
//   %r = f32[4,3] reverse(%x), dimensions={0}     element i of dim 0 comes from size-1-i
#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_reverse(const OpView& view) {
  const Type& x = array_operand(view, 0);
  check_distinct_dims(view.as<DimensionsAttributes>().dimensions, x.ndim(), "dimensions");
  return declared_or(view, x);
}

Literal evaluate_reverse(const EvalContext& context) {
  const Literal& x = context.operands[0];
  const Dims& dims = x.type().dims();
  StridedSide source{0, row_major_strides(dims)};
  for (const auto d : context.view.as<DimensionsAttributes>().dimensions) {
    source.offset += (at(dims, d) - 1) * at(source.strides, d);
    at(source.strides, d) *= -1;
  }
  Literal out(context.view.result);
  strided_copy(x, source, out, {0, row_major_strides(dims)}, dims);
  return out;
}

FactorMap factors_reverse(const OpView& view) {
  FactorMap map = elementwise_factors(view);
  for (const auto d : view.as<DimensionsAttributes>().dimensions) {
    at(map.factors, d).kind = FactorKind::kPermute;
    const auto dim = static_cast<int>(d);
    map.windows.push_back({.dim = dim, .factor = dim, .reversed = true});
  }
  return map;
}

std::vector<Value> gradient_reverse(GradientContext& c) {
  return {ops::reverse(c.d_result(), c.view.as<DimensionsAttributes>().dimensions)};
}

}  // namespace

const OpDef kReverse{
    .name = "reverse",
    .min_operands = 1,
    .max_operands = 1,
    .movement = Movement::kReverse,
    .parse = parse_attributes<DimensionsAttributes>,
    .infer = infer_reverse,
    .evaluate = evaluate_reverse,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_reverse,
    .batch = batch_dimensions,
    .factors = factors_reverse,
    .linearity = passes_all,
    .flops = no_flops,
};

}  // namespace rows

Value ops::reverse(Value x, Dims dims) {
  return x.builder->emit(rows::kReverse, {x}, make_attributes(DimensionsAttributes{std::move(dims)}));
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
//   %t = f32[3,2] transpose(%x), dimensions={1,0}     result dim i is operand dim dimensions[i]
#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_transpose(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Dims& permutation = view.as<DimensionsAttributes>().dimensions;
  if (isize(permutation) != x.ndim())
    fail("dimensions={} needs one entry per dim of {}", field_text(permutation), x.str());
  check_distinct_dims(permutation, x.ndim(), "dimensions");
  Dims dims;
  for (const auto dim : permutation) dims.push_back(at(x.dims(), dim));
  return declared_or(view, Type::array(x.dtype(), std::move(dims)));
}

Literal evaluate_transpose(const EvalContext& context) {
  const Literal& x = context.operands[0];
  const Dims own = row_major_strides(x.type().dims());
  Dims strides;
  for (const auto dim : context.view.as<DimensionsAttributes>().dimensions) strides.push_back(at(own, dim));
  Literal out(context.view.result);
  const Dims& dims = out.type().dims();
  strided_copy(x, {0, strides}, out, {0, row_major_strides(dims)}, dims);
  return out;
}

FactorMap factors_transpose(const OpView& view) {
  FactorMap map;
  const TensorFactors operand = add_factors(map, view.operands[0]);
  TensorFactors result;
  for (const auto dim : view.as<DimensionsAttributes>().dimensions) result.push_back(at(operand, dim));
  map.operands = {operand};
  map.results = {result};
  return map;
}

std::vector<Value> gradient_transpose(GradientContext& c) {
  const Dims& permutation = c.view.as<DimensionsAttributes>().dimensions;
  Dims inverse(permutation.size());
  for (int i = 0; i < isize(permutation); ++i) at(inverse, at(permutation, i)) = i;
  return {ops::transpose(c.d_result(), inverse)};
}

}  // namespace

const OpDef kTranspose{
    .name = "transpose",
    .min_operands = 1,
    .max_operands = 1,
    .movement = Movement::kTranspose,
    .chunkable = true,
    .parse = parse_attributes<DimensionsAttributes>,
    .infer = infer_transpose,
    .evaluate = evaluate_transpose,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_transpose,
    .batch = batch_transpose,
    .factors = factors_transpose,
    .linearity = passes_all,
    .flops = no_flops,
};

}  // namespace rows

Value ops::transpose(Value x, Dims permutation) {
  return x.builder->emit(rows::kTranspose, {x}, make_attributes(DimensionsAttributes{std::move(permutation)}));
}

}  // namespace tessera

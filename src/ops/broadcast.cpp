// SPDX-License-Identifier: Apache-2.0
//   %b = f32[2,3] broadcast(%x), dimensions={1}     operand dim i becomes result dim dimensions[i]; the others are new
#include <algorithm>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_broadcast(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Type& declared = declared_array(view);
  const Dims& dimensions = view.as<DimensionsAttributes>().dimensions;
  if (x.dtype() != declared.dtype())
    fail("element types differ: operand {}, declared result {}", x.str(), declared.str());
  if (isize(dimensions) != x.ndim())
    fail("dimensions={} needs one entry per dim of {}", field_text(dimensions), x.str());
  check_distinct_dims(dimensions, declared.ndim(), "dimensions");
  for (int i = 0; i < x.ndim(); ++i)
    require(x.dim(i) == at(declared.dims(), at(dimensions, i)), "operand dim {} is {}, result dim {} is {}", i,
            x.dim(i), at(dimensions, i), at(declared.dims(), at(dimensions, i)));
  return declared;
}

Literal evaluate_broadcast(const EvalContext& context) {
  const Literal& x = context.operands[0];
  const Dims& dimensions = context.view.as<DimensionsAttributes>().dimensions;
  Literal out(context.view.result);
  const Dims& dims = out.type().dims();
  const Dims own = row_major_strides(x.type().dims());
  Dims strides(dims.size(), 0);
  for (std::size_t i = 0; i < dimensions.size(); ++i) at(strides, dimensions[i]) = own[i];
  strided_copy(x, {0, strides}, out, {0, row_major_strides(dims)}, dims);
  return out;
}

FactorMap factors_broadcast(const OpView& view) {
  FactorMap map;
  const TensorFactors result = add_factors(map, view.result);
  TensorFactors operand;
  for (const auto dim : view.as<DimensionsAttributes>().dimensions) operand.push_back(at(result, dim));
  map.operands = {operand};
  map.results = {result};
  return map;
}

// The sum over the new dims, in the operand's order of dims.
std::vector<Value> gradient_broadcast(GradientContext& c) {
  const Dims& dimensions = c.view.as<DimensionsAttributes>().dimensions;
  Dims added;
  for (int d = 0; d < c.view.result.ndim(); ++d)
    if (!contains(dimensions, d)) added.push_back(d);
  const Value d = ops::convert(c.d_result(), c.sum_type(0));
  const Value summed = added.empty() ? d : ops::reduce(d, Reduction::kSum, added);
  if (std::is_sorted(dimensions.begin(), dimensions.end())) return {summed};
  Dims order = dimensions;  // position of each operand dim among the kept dims
  Dims sorted = dimensions;
  std::sort(sorted.begin(), sorted.end());
  for (auto& dim : order) dim = std::find(sorted.begin(), sorted.end(), dim) - sorted.begin();
  return {ops::transpose(summed, order)};
}

}  // namespace

const OpDef kBroadcast{
    .name = "broadcast",
    .min_operands = 1,
    .max_operands = 1,
    .rematerializable = true,
    .movement = Movement::kBroadcast,
    .chunkable = true,
    .materializes = true,
    .parse = parse_attributes<DimensionsAttributes>,
    .infer = infer_broadcast,
    .type_inferable = false,
    .evaluate = evaluate_broadcast,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_broadcast,
    .batch = batch_broadcast,
    .factors = factors_broadcast,
    .linearity = passes_all,
    .localize = localize_declared,
    .flops = no_flops,
};

}  // namespace rows

Value ops::broadcast(Value x, Dims result_dims, Dims dimensions) {
  Type type = x.type().is_array() ? Type::array(x.type().dtype(), std::move(result_dims)) : Type();
  return x.builder->emit(rows::kBroadcast, {x}, make_attributes(DimensionsAttributes{std::move(dimensions)}),
                         {.type = std::move(type)});
}
Value ops::splat(Value scalar, Dims dims) { return dims.empty() ? scalar : broadcast(scalar, std::move(dims), {}); }
Value ops::full(Builder& builder, const Type& type, double value) {
  Dims dims = type.dims();  // `type` may be that of an instruction, which moves when another one is appended
  return splat(scalar(builder, type.dtype(), value), std::move(dims));
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
//   %n = s32[] get-dimension-size(%x), dimensions={0}       the size of a dim; here always the one in the type
// set-dimension-size and dynamic-reshape, whose sizes are only known at run time, have no rows.
#include <limits>

#include "row_support.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera::rows {
namespace {

std::int64_t size_of(const OpView& view) {
  return view.operands[0].dim(static_cast<int>(view.as<DimensionsAttributes>().dimensions.front()));
}

Type infer_dynamic_dims(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Dims& dims = view.as<DimensionsAttributes>().dimensions;
  require(dims.size() == 1, "dimensions must name one dim, got {}", [&] { return field_text(dims); });
  check_dim(dims[0], x.ndim(), "dimension");
  require(size_of(view) <= std::numeric_limits<std::int32_t>::max(),
          "dim {} has {} elements, more than the result, s32[], counts", dims[0], size_of(view));
  return declared_or(view, Type::scalar(DType::kS32));
}

Literal evaluate_dynamic_dims(const EvalContext& context) {
  return Literal::scalar(static_cast<std::int32_t>(size_of(context.view)));
}

FactorMap factors_dynamic_dims(const OpView& view) {
  FactorMap map;
  map.operands = {add_factors(map, view.operands[0])};
  map.results = {{}};
  return map;
}

Value localize_dynamic_dims(LocalizeContext& context) {
  return ops::constant(context.builder, Literal::scalar(static_cast<std::int32_t>(size_of(context.view))));
}

}  // namespace

const OpDef kGetDimensionSize{.name = "get-dimension-size",
                              .min_operands = 1,
                              .max_operands = 1,
                              .parse = parse_attributes<DimensionsAttributes>,
                              .infer = infer_dynamic_dims,
                              .evaluate = evaluate_dynamic_dims,
                              .gradient_kind = GradientKind::kZero,
                              .factors = factors_dynamic_dims,
                              .localize = localize_dynamic_dims,
                              .flops = no_flops};

}  // namespace tessera::rows

// SPDX-License-Identifier: Apache-2.0
//   %m = f32[4] map(%x, %y), dimensions={0}, to_apply=%scalar_function       element by element
#include "batch_rules.h"
#include "row_support.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_map(const OpView& view) {
  require(view.called.size() == 1, "needs one computation, got {}", view.called.size());
  const Computation& f = *view.called[0];
  const Type& first = array_operand(view, 0);
  const auto parameters = f.parameter_types();
  require(parameters.size() == view.operands.size(), "%{} takes {} parameters, got {}", f.name, parameters.size(),
          view.operands.size());
  for (int i = 0; i < isize(parameters); ++i) {
    const Type& x = array_operand(view, i);
    require(x.dims() == first.dims(), "operands differ in dims: {} and {}", first, x);
    require(at(parameters, i) == Type::scalar(x.dtype()), "parameter {} of %{} is {}, but the operand is {}", i, f.name,
            at(parameters, i), x);
  }
  const Type& root = f.root_type();
  require(root.is_array() && root.ndim() == 0, "%{} must return a scalar, returns {}", f.name, root);
  const Dims& dims = view.as<DimensionsAttributes>().dimensions;
  for (int d = 0; d < isize(dims); ++d)
    require(at(dims, d) == d, "dimensions must be 0, 1, 2, …, got {}", [&] { return field_text(dims); });
  require(
      dims.empty() || isize(dims) == first.ndim(), "dimensions {} must name every dim of {}",
      [&] { return field_text(dims); }, first);
  return declared_or(view, first.with_dtype(root.dtype()));
}

Literal evaluate_map(const EvalContext& context) {
  Literal out(context.view.result);
  for (std::int64_t i = 0; i < out.type().element_count(); ++i) {
    std::vector<Literal> arguments;
    for (const Literal& operand : context.operands) {
      Literal one(Type::scalar(operand.type().dtype()));
      strided_copy(operand, {i, {}}, one, {0, {}}, {});
      arguments.push_back(std::move(one));
    }
    strided_copy(context.call(0, arguments), {0, {}}, out, {i, {}}, {});
  }
  return out;
}

}  // namespace

const OpDef kMap{.name = "map",
                 .min_operands = 1,
                 .max_operands = -1,
                 .called = {"to_apply"},
                 .parse = parse_attributes<DimensionsAttributes>,
                 .infer = infer_map,
                 .evaluate = evaluate_map,
                 .batch = batch_dimensions,
                 .factors = elementwise_factors};

}  // namespace rows

Value ops::map(const std::vector<Value>& operands, ComputationId function) {
  require(!operands.empty(), "map: needs at least one operand");
  Dims dims(operands.front().type().dims().size());
  for (std::int64_t d = 0; d < isize(dims); ++d) at(dims, d) = d;
  return operands.front().builder->emit(rows::kMap, operands, make_attributes(DimensionsAttributes{std::move(dims)}),
                                        {.called = {function}});
}

}  // namespace tessera

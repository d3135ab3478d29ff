// SPDX-License-Identifier: Apache-2.0
//   %t = (f32[4,3], s32[4,3]) topk(%x), k=3, largest=true     of the last dim, in order, with their positions
// Numbers are in total order (a positive NaN is larger than all others); of equal elements, the first comes first. The
// custom-call TopK computes the same.
#include "topk.h"

#include <algorithm>
#include <numeric>

#include "batch_rules.h"
#include "elementwise_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera::rows {
namespace {

std::int64_t order_key(const Literal& x, std::int64_t i) {
  if (is_float(x.type().dtype())) return total_order_key(element_as_double(x, i));
  const std::int64_t value = element_as_int(x, i);
  return x.type().dtype() == DType::kU64 ? value ^ std::numeric_limits<std::int64_t>::min() : value;
}

Type infer_topk(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const auto& [k, largest] = view.as<TopKAttributes>();
  require(x.ndim() >= 1 && x.dtype() != DType::kPred && !is_complex(x.dtype()),
          "needs numeric elements along a dim, got {}", x);
  require(k >= 0 && k <= x.dims().back(), "k={} of the {} elements of the last dim of {}", k, x.dims().back(), x);
  Dims dims = x.dims();
  dims.back() = k;
  const Type values = Type::array(x.dtype(), dims);
  return declared_or(view, Type::tuple({values, Type::array(DType::kS32, dims)}));
}

Literal evaluate_topk(const EvalContext& context) {
  const auto& [k, largest] = context.view.as<TopKAttributes>();
  return top_k(context.operands[0], k, largest, context.view.result);
}

std::vector<Value> gradient_topk(GradientContext& c) {
  const Type& x = c.view.operands[0];
  const Value d = c.d_results.front();
  if (d.is_null()) return {Value{}};
  const int last = x.ndim() - 1;
  Dims index_dims = d.type().dims();
  index_dims.push_back(1);
  ScatterAttributes attributes;
  attributes.inserted_window_dims = {last};
  attributes.scatter_dims_to_operand_dims = {last};
  for (std::int64_t i = 0; i < last; ++i) attributes.input_batching_dims.push_back(i);
  attributes.scatter_indices_batching_dims = attributes.input_batching_dims;
  attributes.index_vector_dim = x.ndim();
  attributes.unique_indices = true;
  const Value places = ops::reshape(ops::get_tuple_element(c.result, 1), index_dims);
  const auto add = ops::reduction_computation(c.builder.program(), Reduction::kSum, x.dtype());
  return {ops::scatter({ops::full(c.builder, x, 0)}, places, {d}, attributes, add)};
}

}  // namespace

Literal top_k(const Literal& x, std::int64_t k, bool largest, const Type& result) {
  Literal values(result.elements()[0]);
  Literal indices(result.elements()[1]);
  const std::int64_t n = x.type().dims().back();
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  for (std::int64_t row = 0; n > 0 && row < x.type().element_count() / n; ++row) {
    std::iota(order.begin(), order.end(), row * n);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return largest ? order_key(x, a) > order_key(x, b) : order_key(x, a) < order_key(x, b);
    });
    for (std::int64_t i = 0; i < k; ++i) {
      strided_copy(x, {at(order, i), {}}, values, {row * k + i, {}}, {});
      at(indices.mutable_data<std::int32_t>(), row * k + i) = static_cast<std::int32_t>(at(order, i) - row * n);
    }
  }
  return Literal::tuple({std::move(values), std::move(indices)});
}

FactorMap top_k_factors(const OpView& view) {
  FactorMap map;
  const Type& x = view.operands[0];
  TensorFactors operand = add_factors(map, x);
  at(map.factors, operand.back().front()).kind = FactorKind::kBlocked;
  TensorFactors result = operand;
  result.back() = {map.add(view.result.elements()[0].dims().back(), FactorKind::kBlocked)};
  map.operands = {std::move(operand)};
  map.results = {result, result};
  return map;
}

const OpDef kTopK{.name = "topk",
                  .min_operands = 1,
                  .max_operands = 1,
                  .parse = parse_attributes<TopKAttributes>,
                  .infer = infer_topk,
                  .evaluate = evaluate_topk,
                  .gradient_kind = GradientKind::kFunction,
                  .gradient = gradient_topk,
                  .batch = batch_same,
                  .factors = top_k_factors,
                  .flops = no_flops};

}  // namespace tessera::rows

namespace tessera {

std::optional<TopKAttributes> top_k_of(const OpView& view) {
  if (&view.op == &rows::kTopK) return view.as<TopKAttributes>();
  if (&view.op != &rows::kCustomCall || view.as<CustomCallAttributes>().target != "TopK") return std::nullopt;
  if (view.operands.size() != 1 || !view.result.is_tuple()) return std::nullopt;
  const Type& array = view.operands[0];
  const auto& parts = view.result.elements();
  if (!array.is_array() || array.ndim() == 0 || parts.size() != 2 || !parts[0].is_array()) return std::nullopt;
  if (parts[0].ndim() != array.ndim() || parts[0].dims().back() > array.dims().back()) return std::nullopt;
  Dims selected = array.dims();
  selected.back() = parts[0].dims().back();
  const bool fits = parts[0] == Type::array(array.dtype(), selected) && parts[1] == parts[0].with_dtype(DType::kS32);
  return fits ? std::optional(TopKAttributes{parts[0].dims().back(), true}) : std::nullopt;
}

Value ops::topk(Value x, std::int64_t k, bool largest) {
  return x.builder->emit(rows::kTopK, {x}, make_attributes(TopKAttributes{k, largest}));
}

}  // namespace tessera

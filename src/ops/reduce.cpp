// SPDX-License-Identifier: Apache-2.0
//   %s = f32[4] reduce(%x, %zero), dimensions={1}, to_apply=%sum
//   %m = (f32[4], s32[4]) reduce(%x, %i, %low, %none), dimensions={1}, to_apply=%argmax      operands, then their inits
#include <cmath>

#include "batch_rules.h"
#include "reduce_support.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

const Dims& reduced(const OpView& view) { return view.as<DimensionsAttributes>().dimensions; }

Dims kept(const OpView& view) {
  Dims out;
  for (int d = 0; d < view.operands[0].ndim(); ++d)
    if (!contains(reduced(view), d)) out.push_back(d);
  return out;
}

// ---- infer ----------------------------------------------------------------------------------------------------------

Type infer_reduce(const OpView& view) {
  const int n = input_count(view);
  require(isize(view.operands) == 2 * n, "needs an init per operand, got {} operands in all", view.operands.size());
  const Type& first = array_operand(view, 0);
  check_distinct_dims(reduced(view), first.ndim(), "dimensions");
  std::vector<Type> results;
  for (int i = 0; i < n; ++i) {
    const Type& x = checked_input(view, i);
    Dims dims;
    for (const auto d : kept(view)) dims.push_back(at(x.dims(), d));
    results.push_back(Type::array(x.dtype(), std::move(dims)));
  }
  check_to_apply(view);
  return declared_or(view, n == 1 ? results[0] : Type::tuple(std::move(results)));
}

// ---- evaluation -----------------------------------------------------------------------------------------------------

// The elements as [kept.., reduced..], so that the elements of each result are contiguous.
Literal arranged(const Literal& x, const OpView& view) {
  Dims order = kept(view);
  const Dims& last = reduced(view);
  order.insert(order.end(), last.begin(), last.end());
  Dims box;
  Dims strides;
  const Dims own = row_major_strides(x.type().dims());
  for (const auto d : order) {
    box.push_back(at(x.type().dims(), d));
    strides.push_back(at(own, d));
  }
  Literal out(Type::array(x.type().dtype(), box));
  strided_copy(x, {0, strides}, out, {0, row_major_strides(box)}, box);
  return out;
}

// Accumulates in double or 64 bits and rounds once.
Literal reduce_known(const Literal& x, const Literal& init, const Type& result, Reduction reduction) {
  Literal out(result);
  visit_any_dtype(result.dtype(), [&]<class T>() {
    const auto from = x.data<T>();
    auto to = out.mutable_data<T>();
    const std::size_t run = to.empty() ? 0 : from.size() / to.size();
    for (std::size_t i = 0; i < to.size(); ++i) {
      auto total = static_cast<Wide<T>>(init.data<T>()[0]);
      for (std::size_t j = 0; j < run; ++j) total = combined(reduction, total, static_cast<Wide<T>>(from[i * run + j]));
      to[i] = static_cast<T>(total);
    }
  });
  return out;
}

// For any computation: reduces in row-major order.
Literal reduce_by_calls(const EvalContext& context, const std::vector<Literal>& inputs) {
  const std::size_t n = inputs.size();
  const std::vector<Type> types = context.view.result.leaves();
  std::vector<Literal> out(types.begin(), types.end());
  const auto count = static_cast<std::size_t>(types[0].element_count());
  const auto total = static_cast<std::size_t>(inputs[0].type().element_count());
  const std::size_t run = count == 0 ? 0 : total / count;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Literal> state(context.operands.begin() + static_cast<std::ptrdiff_t>(n), context.operands.end());
    for (std::size_t j = i * run; j < (i + 1) * run; ++j) {
      for (const Literal& input : inputs) state.push_back(scalar_at(input, static_cast<std::int64_t>(j)));
      state = context.call(0, state).leaves();
    }
    for (std::size_t k = 0; k < n; ++k) strided_copy(state[k], {0, {}}, out[k], {static_cast<std::int64_t>(i), {}}, {});
  }
  return n == 1 ? out[0] : Literal::tuple(std::move(out));
}

Literal evaluate_reduce(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_reduce);
  const auto n = static_cast<std::size_t>(input_count(context.view));
  std::vector<Literal> inputs;
  for (std::size_t i = 0; i < n; ++i) inputs.push_back(arranged(context.operands[i], context.view));
  if (const auto reduction = known_reduction(context.view))
    return reduce_known(inputs[0], context.operands[1], context.view.result, *reduction);
  return reduce_by_calls(context, inputs);
}

// ---- factors_reduce, linearity_reduce, localize -----------------------------------------------------------------------------------

FactorMap factors_reduce(const OpView& view) {
  const auto n = static_cast<std::size_t>(input_count(view));
  FactorMap map;
  const TensorFactors input = add_factors(map, view.operands[0]);
  for (const auto d : reduced(view)) at(map.factors, d).kind = FactorKind::kReduce;
  TensorFactors result;
  for (const auto d : kept(view)) result.push_back(at(input, d));
  map.operands.assign(n, input);
  map.operands.resize(2 * n);  // inits have no dims
  map.results.assign(n, result);
  const auto reduction = known_reduction(view);
  map.reduction_known = reduction.has_value();
  map.reduction = reduction.value_or(Reduction::kSum);
  return map;
}

Linearity linearity_reduce(const OpView& view, int operand) {
  return operand == 0 && known_reduction(view) == Reduction::kSum ? Linearity::kLinear : Linearity::kNone;
}

// If the result is partial, the init value counts on one device only.
Value localize_reduce(LocalizeContext& context) {
  std::vector<Value> operands = context.operands;
  if (operands.size() == 2) operands[1] = counted_once(context, operands[1]);
  return emit_local(context, operands, context.view.attributes);
}

double flops_reduce(const OpView& view) {
  return static_cast<double>(view.operands[0].element_count()) * input_count(view);
}

// ---- gradient -------------------------------------------------------------------------------------------------------

std::vector<Value> gradient_extremum(GradientContext& c) {
  const Value x = c.operand(0);
  const Dims dims = kept(c.view);
  const auto spread = [&](Value v) { return ops::broadcast(v, x.type().dims(), dims); };
  const Value reached = ops::compare(x, spread(c.result), CompareDirection::kEq);
  // Equal extremal elements share the gradient.
  const Value ties = ops::reduce(ops::convert(reached, x.type().dtype()), Reduction::kSum, reduced(c.view));
  const Value share = spread(ops::divide(c.d_result(), ties));
  std::vector<Value> out{ops::select(reached, share, full_like(x, 0)), Value{}};
  if (c.needs(1)) {
    const Value init = ops::splat(c.operand(1), c.result.type().dims());
    const Value won = ops::compare(c.result, init, CompareDirection::kEq);
    out[1] = sum_all(ops::select(won, c.d_result(), full_like(c.d_result(), 0)));
  }
  return out;
}

// Element i becomes element i + shift along dim d; the elements without one become 1.
Value moved_along(Value x, std::int64_t d, std::int64_t shift) {
  std::vector<PaddingDim> padding(x.type().dims().size());
  at(padding, d) = {shift, -shift, 0};
  return ops::pad(x, ops::scalar(*x.builder, x.type().dtype(), 1), std::move(padding));
}

// The products of all elements before (direction 1) or behind (-1) each element along dim d.
Value products_beside(Value x, std::int64_t d, std::int64_t direction) {
  const std::int64_t size = at(x.type().dims(), d);
  Value out = moved_along(x, d, direction);
  for (std::int64_t reach = 1; reach + 1 < size; reach *= 2)
    out = ops::multiply(out, moved_along(out, d, direction * reach));
  return out;
}

// The product of the other elements of `dims`, for each element.
Value product_of_others(Value x, Dims dims) {
  if (dims.empty() || x.type().element_count() == 0) return full_like(x, 1);
  const Dims sizes = x.type().dims();
  const std::int64_t d = dims.back();
  dims.pop_back();
  Value out = full_like(x, 1);
  if (at(sizes, d) > 1) {
    const Value before = products_beside(x, d, 1);
    out = ops::multiply(before, products_beside(x, d, -1));
  }
  if (dims.empty()) return out;
  // Times the products of all other lines along d.
  Dims places;
  for (std::int64_t i = 0; i < isize(sizes); ++i)
    if (i != d) places.push_back(i);
  for (auto& other : dims) other -= other > d ? 1 : 0;
  const Value lines = product_of_others(ops::reduce(x, Reduction::kProduct, {d}), std::move(dims));
  return ops::multiply(out, ops::broadcast(lines, sizes, std::move(places)));
}

// d times the product of the other elements. No division, so that derivatives of every order are exact at zeros.
std::vector<Value> gradient_product(GradientContext& c) {
  const Value x = c.operand(0);
  const Value init = ops::splat(c.operand(1), c.result.type().dims());
  std::vector<Value> out(2);
  if (c.needs(0)) {
    const Value d = ops::broadcast(ops::multiply(c.d_result(), init), x.type().dims(), kept(c.view));
    out[0] = ops::multiply(d, product_of_others(x, reduced(c.view)));
  }
  if (c.needs(1)) out[1] = sum_all(ops::multiply(c.d_result(), ops::reduce(x, Reduction::kProduct, reduced(c.view))));
  return out;
}

std::vector<Value> gradient_reduce(GradientContext& c) {
  const auto reduction = known_reduction(c.view);
  require(reduction.has_value(), "reduce by %{} has no gradient_reduce; only sum, product, min and max have one",
          c.view.called[0]->name);
  if (*reduction == Reduction::kMin || *reduction == Reduction::kMax) return gradient_extremum(c);
  if (*reduction == Reduction::kProduct) return gradient_product(c);
  require(*reduction == Reduction::kSum, "reduce by {} has no gradient", reduction_name(*reduction));
  return {c.needs(0) ? ops::broadcast(c.d_result(), c.view.operands[0].dims(), kept(c.view)) : Value{},
          c.needs(1) ? sum_all(c.d_result()) : Value{}};
}

}  // namespace

const OpDef kReduce{
    .name = "reduce",
    .min_operands = 2,
    .max_operands = -1,
    .chunkable = true,
    .called = {"to_apply"},
    .parse = parse_attributes<DimensionsAttributes>,
    .infer = infer_reduce,
    .evaluate = evaluate_reduce,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_reduce,
    .batch = batch_reduce,
    .factors = factors_reduce,
    .linearity = linearity_reduce,
    .localize = localize_reduce,
    .flops = flops_reduce,
};

}  // namespace rows

Value ops::reduce(Value x, Reduction reduction, Dims dims) {
  Builder& builder = *x.builder;
  require(x.type().is_array(), "reduce: an array is needed, got {}", x.type());
  const DType dtype = x.type().dtype();
  const Value init = constant(builder, reduction_identity(reduction, dtype));
  return reduce({x}, {init}, std::move(dims), reduction_computation(builder.program(), reduction, dtype));
}
Value ops::reduce(const std::vector<Value>& operands, const std::vector<Value>& inits, Dims dims,
                  ComputationId computation) {
  require(!operands.empty(), "reduce: needs at least one operand");
  std::vector<Value> all = operands;
  all.insert(all.end(), inits.begin(), inits.end());
  return operands.front().builder->emit(rows::kReduce, all, make_attributes(DimensionsAttributes{std::move(dims)}),
                                        {.called = {computation}});
}

}  // namespace tessera

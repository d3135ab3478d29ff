// SPDX-License-Identifier: Apache-2.0
//   %s = f32[4] select(%p, %a, %b)        %p pred[4] or pred[]
//   %c = f32[4] clamp(%low, %x, %high)    min(max(x, low), high); bounds of x's dims, or scalars
#include <cmath>

#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

void check_scalar_or_dims(const Type& type, const Type& x, std::string_view what) {
  if (type.ndim() != 0 && type.dims() != x.dims())
    fail("{} must be a scalar or have dims {}, got {}", what, dims_text(x.dims()), type.str());
}

// ---- select ---------------------------------------------------------------------------------------------------------

Type infer_select(const OpView& view) {
  const Type& predicate = array_operand(view, 0);
  const Type& on_true = array_operand(view, 1);
  const Type& on_false = array_operand(view, 2);
  if (predicate.dtype() != DType::kPred) fail("the predicate must be pred, got {}", predicate.str());
  if (on_true != on_false) fail("the branches differ: {} and {}", on_true.str(), on_false.str());
  check_scalar_or_dims(predicate, on_true, "the predicate");
  return declared_or(view, on_true);
}

Literal evaluate_select(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_select);
  const auto predicate = context.operands[0].data<bool>();
  const bool one = context.operands[0].type().ndim() == 0;
  if (one) return context.operands[predicate[0] ? 1 : 2];
  Literal out(context.view.result);
  visit_any_dtype(out.type().dtype(), [&]<class T>() {
    const auto on_true = context.operands[1].data<T>();
    const auto on_false = context.operands[2].data<T>();
    auto to = out.mutable_data<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = predicate[i] ? on_true[i] : on_false[i];
  });
  return out;
}

std::vector<Value> gradient_select(GradientContext& c) {
  const Value zero = full_like(c.d_result(), 0);
  return {Value{}, c.needs(1) ? ops::select(c.operand(0), c.d_result(), zero) : Value{},
          c.needs(2) ? ops::select(c.operand(0), zero, c.d_result()) : Value{}};
}

Linearity select_linearity(const OpView&, int operand) {
  return operand == 0 ? Linearity::kNone : Linearity::kJointlyLinear;
}

// ---- clamp ----------------------------------------------------------------------------------------------------------

Type infer_clamp(const OpView& view) {
  const Type& x = array_operand(view, 1);
  for (const int bound : {0, 2}) {
    const Type& type = array_operand(view, bound);
    const std::string_view what = bound == 0 ? "the low bound" : "the high bound";
    require(type.dtype() == x.dtype(), "{} is {}, the value {}", what, dtype_name(type.dtype()), dtype_name(x.dtype()));
    check_scalar_or_dims(type, x, what);
  }
  if (x.dtype() == DType::kPred) fail("takes numbers, got {}", x.str());
  return declared_or(view, x);
}

template <class T>
T clamp_element(T low, T x, T high) {
  if constexpr (is_float(kDTypeOf<T>)) {
    const auto [l, v, h] = std::tuple(static_cast<double>(low), static_cast<double>(x), static_cast<double>(high));
    return static_cast<T>(smaller(larger(v, l), h));
  } else {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
}

Literal evaluate_clamp(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_clamp);
  Literal out(context.view.result);
  visit_dtype(out.type().dtype(), [&]<class T>() {
    const auto low = context.operands[0].data<T>();
    const auto x = context.operands[1].data<T>();
    const auto high = context.operands[2].data<T>();
    auto to = out.mutable_data<T>();
    const bool low_is_scalar = context.operands[0].type().ndim() == 0;
    const bool high_is_scalar = context.operands[2].type().ndim() == 0;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = clamp_element<T>(low[low_is_scalar ? 0 : i], x[i], high[high_is_scalar ? 0 : i]);
  });
  return out;
}

// The gradient belongs to x between the bounds, to low if x is less, and to high if x is greater; scalar bounds get the
// sum.
std::vector<Value> gradient_clamp(GradientContext& c) {
  const Value d = c.d_result();
  const auto spread = [&](Value bound) {
    return bound.type().dims() == d.type().dims() ? bound : ops::splat(bound, d.type().dims());
  };
  const auto gathered = [&](Value flow, Value bound) {
    return bound.type().dims() == d.type().dims() ? flow : sum_all(flow);
  };
  const Value low = spread(c.operand(0));
  const Value high = spread(c.operand(2));
  const Value raised = ops::maximum(low, c.operand(1));
  const Value zero = full_like(d, 0);
  const Value passed = ops::select(ops::compare(raised, high, CompareDirection::kLe), d, zero);
  const Value was_low = ops::compare(c.operand(1), low, CompareDirection::kLt);
  std::vector<Value> out(3);
  if (c.needs(0)) out[0] = gathered(ops::select(was_low, passed, zero), c.operand(0));
  if (c.needs(1)) out[1] = ops::select(was_low, zero, passed);
  if (c.needs(2)) out[2] = gathered(ops::subtract(d, passed), c.operand(2));
  return out;
}

Linearity clamp_linearity(const OpView&, int operand) { return operand == 1 ? Linearity::kMonotone : Linearity::kNone; }

}  // namespace

const OpDef kSelect{
    .name = "select",
    .min_operands = 3,
    .max_operands = 3,
    .elementwise = true,
    .inexpensive = true,
    .infer = infer_select,
    .evaluate = evaluate_select,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_select,
    .factors = elementwise_factors,
    .linearity = select_linearity,
};

const OpDef kClamp{
    .name = "clamp",
    .min_operands = 3,
    .max_operands = 3,
    .elementwise = true,
    .inexpensive = true,
    .infer = infer_clamp,
    .evaluate = evaluate_clamp,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_clamp,
    .factors = elementwise_factors,
    .linearity = clamp_linearity,
};

}  // namespace rows

Value ops::select(Value predicate, Value on_true, Value on_false) {
  return on_true.builder->emit(rows::kSelect, {predicate, on_true, on_false});
}
Value ops::clamp(Value low, Value x, Value high) { return x.builder->emit(rows::kClamp, {low, x, high}); }

}  // namespace tessera

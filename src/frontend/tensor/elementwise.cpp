// SPDX-License-Identifier: Apache-2.0
// Elementwise operators and functions. mathematics.cpp and activations.cpp have the others.
#include <cmath>
#include <optional>
#include <utility>

#include "tensor/number_types.h"
#include "tensor/wide_elementwise.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// Adds the operands and the location to errors that are not from the checks of the op.
template <class F>
Tensor at_place(std::initializer_list<const Operand*> operands, std::string_view name, F&& emit) {
  const Operand& first = **operands.begin();
  try {
    return trace().record(first.where(), [&](Builder& builder) {
      const CalledAs scope(builder, name);
      return emit();
    });
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    std::vector<const Tensor*> tensors;
    for (const Operand* operand : operands) tensors.push_back(&operand->tensor());
    add_context(error, name, tensors, first.where());
    throw;
  }
}

using Binary = Value (*)(Value, Value);
using Unary = Value (*)(Value);

Tensor binary(const Operand& lhs, const Operand& rhs, std::string_view name, Binary op) {
  return at_place({&lhs, &rhs}, name, [&] {
    const auto [x, y] = broadcast_operands(lhs, rhs, name);
    return op(x, y);
  });
}
// As binary(). A pred tensor with a number would give a pred result, whereas PyTorch gives numbers.
Tensor arithmetic(const Operand& lhs, const Operand& rhs, std::string_view name, Binary op) {
  return at_place({&lhs, &rhs}, name, [&] {
    const auto [x, y] = broadcast_operands(lhs, rhs, name);
    if (x.type().dtype() == DType::kPred && lhs.is_number()) fail_pred_with_number(lhs.number(), y.type());
    if (x.type().dtype() == DType::kPred && rhs.is_number()) fail_pred_with_number(rhs.number(), x.type());
    return op(x, y);
  });
}

// The result of a comparison of an integer tensor with a number that is out of its range, or equal to no integer. It is
// the same for all elements.
std::optional<bool> decided(const Operand& lhs, const Operand& rhs, CompareDirection direction) {
  if (lhs.is_number() == rhs.is_number()) return {};
  const double number = lhs.is_number() ? lhs.number() : rhs.number();
  const DType dtype = (lhs.is_number() ? rhs : lhs).tensor().dtype();
  using enum CompareDirection;
  const bool tests_equality = direction == kEq || direction == kNe;
  if (is_integer(dtype) && (std::isnan(number) || (tests_equality && number != std::trunc(number))))
    return direction == kNe;
  const NumberPlace place = place_of(number, dtype);
  if (place == NumberPlace::kInside) return {};
  if (tests_equality) return direction == kNe;
  const bool lhs_is_less = (place == NumberPlace::kAbove) == rhs.is_number();
  return lhs_is_less == (direction == kLt || direction == kLe);
}

// The integer with which the order of integers is that of the number: x < 2.5 is x < 3, and x <= 2.5 is x <= 2.
Operand for_order(const Operand& side, const Operand& other, bool is_left, CompareDirection direction) {
  if (!side.is_number() || other.is_number() || !is_integer(other.tensor().dtype())) return side;
  using enum CompareDirection;
  const bool up = is_left ? direction == kLe || direction == kGt : direction == kLt || direction == kGe;
  return {up ? std::ceil(side.number()) : std::floor(side.number()), side.where()};
}

Tensor compare(const Operand& lhs, const Operand& rhs, CompareDirection direction) {
  return at_place({&lhs, &rhs}, "compare", [&] {
    if (const auto result = decided(lhs, rhs, direction)) {
      const Tensor& tensor = lhs.is_number() ? rhs.tensor() : lhs.tensor();
      return trace().full(tensor.type().with_dtype(DType::kPred), *result ? 1 : 0);
    }
    const auto [x, y] = broadcast_operands(for_order(lhs, rhs, true, direction), for_order(rhs, lhs, false, direction));
    return ops::compare(x, y, direction);
  });
}
template <class F>
Tensor unary(const Operand& x, std::string_view name, F&& op) {
  return at_place({&x}, name, [&] { return op(autocast_value(name, x)); });
}

}  // namespace

Tensor operator+(Operand lhs, Operand rhs) { return arithmetic(lhs, rhs, "add", ops::add); }
Tensor operator-(Operand lhs, Operand rhs) { return arithmetic(lhs, rhs, "subtract", ops::subtract); }
Tensor operator*(Operand lhs, Operand rhs) { return arithmetic(lhs, rhs, "multiply", ops::multiply); }

namespace {

// The quotient of integers is f32. With a number, they are converted first, so that the number may be a fraction.
Operand for_quotient(const Operand& x, const Operand& other) {
  const bool is_integral = !x.is_number() && !x.tensor().is_null() && is_integer(x.tensor().dtype());
  return is_integral && other.is_number() ? Operand(x.tensor().to(DType::kF32, x.where()), x.where()) : x;
}
Value quotient(Value x, Value y) {
  if (!is_integer(x.type().dtype())) return ops::divide(x, y);
  return ops::divide(ops::convert(x, DType::kF32), ops::convert(y, DType::kF32));
}

}  // namespace

Tensor operator/(Operand lhs, Operand rhs) {
  return arithmetic(for_quotient(lhs, rhs), for_quotient(rhs, lhs), "divide", quotient);
}
Tensor operator%(Operand lhs, Operand rhs) { return remainder(std::move(lhs), std::move(rhs)); }
Tensor operator+(Operand x) {
  return at_place({&x}, "+", [&] { return operand_value(x); });
}
Tensor operator-(Operand x) { return unary(x, "negate", ops::negate); }
Tensor operator<(Operand lhs, Operand rhs) { return compare(lhs, rhs, CompareDirection::kLt); }
Tensor operator<=(Operand lhs, Operand rhs) { return compare(lhs, rhs, CompareDirection::kLe); }
Tensor operator>(Operand lhs, Operand rhs) { return compare(lhs, rhs, CompareDirection::kGt); }
Tensor operator>=(Operand lhs, Operand rhs) { return compare(lhs, rhs, CompareDirection::kGe); }
Tensor operator==(Operand lhs, Operand rhs) { return compare(lhs, rhs, CompareDirection::kEq); }
Tensor operator!=(Operand lhs, Operand rhs) { return compare(lhs, rhs, CompareDirection::kNe); }
Tensor operator&&(Operand lhs, Operand rhs) { return binary(lhs, rhs, "and", ops::logical_and); }
Tensor operator||(Operand lhs, Operand rhs) { return binary(lhs, rhs, "or", ops::logical_or); }
Tensor operator!(Operand x) { return unary(x, "not", ops::logical_not); }
Tensor operator&(Operand lhs, Operand rhs) { return binary(lhs, rhs, "and", ops::logical_and); }
Tensor operator|(Operand lhs, Operand rhs) { return binary(lhs, rhs, "or", ops::logical_or); }
Tensor operator^(Operand lhs, Operand rhs) { return binary(lhs, rhs, "xor", ops::logical_xor); }
Tensor operator~(Operand x) { return unary(x, "not", ops::logical_not); }

namespace {

// x = result, for `+=` and its like.
Tensor& rebind(Tensor& x, std::string_view sign, const Operand& y, Tensor (*op)(Operand, Operand)) {
  in_context(sign, {&x, &y.tensor()}, y.where(), [&] {
    require(!x.requires_grad(),
            "x {} y gives the handle x a new value and would not change this variable; write x.assign(...) to change "
            "the variable",
            sign);
  });
  x = op({x, y.where()}, y);
  return x;
}

}  // namespace

Tensor& operator+=(Tensor& x, Operand y) { return rebind(x, "+=", y, operator+); }
Tensor& operator-=(Tensor& x, Operand y) { return rebind(x, "-=", y, operator-); }
Tensor& operator*=(Tensor& x, Operand y) { return rebind(x, "*=", y, operator*); }
Tensor& operator/=(Tensor& x, Operand y) {
  if (!x.is_null() && is_integer(x.dtype()))
    in_context("/=", {&x, &y.tensor()}, y.where(), [&] {
      fail("the quotient of integers is f32, but x is {}; write x = x / y, or x = floor_divide(x, y)", x.type().str());
    });
  return rebind(x, "/=", y, operator/);
}
Tensor& operator%=(Tensor& x, Operand y) { return rebind(x, "%=", y, operator%); }
Tensor& operator&=(Tensor& x, Operand y) { return rebind(x, "&=", y, operator&); }
Tensor& operator|=(Tensor& x, Operand y) { return rebind(x, "|=", y, operator|); }
Tensor& operator^=(Tensor& x, Operand y) { return rebind(x, "^=", y, operator^); }

namespace {

// maximum or minimum. A number out of the range of an integer tensor has no effect on the side `idle`.
Tensor bounded(const Operand& lhs, const Operand& rhs, std::string_view name, Binary op, NumberPlace idle) {
  if (lhs.is_number() != rhs.is_number()) {
    const Operand& number = lhs.is_number() ? lhs : rhs;
    const Operand& x = lhs.is_number() ? rhs : lhs;
    if (!x.tensor().is_null() && place_of(number.number(), x.tensor().dtype()) == idle)
      return at_place({&lhs, &rhs}, name, [&] { return operand_value(x); });
  }
  return binary(lhs, rhs, name, op);
}

}  // namespace

Tensor maximum(Operand lhs, Operand rhs) { return bounded(lhs, rhs, "maximum", ops::maximum, NumberPlace::kBelow); }
Tensor minimum(Operand lhs, Operand rhs) { return bounded(lhs, rhs, "minimum", ops::minimum, NumberPlace::kAbove); }
Tensor pow(Operand lhs, Operand rhs) {
  const Tensor& base = lhs.tensor();
  if (rhs.is_number() && rhs.number() < 0 && !base.is_null() && is_integer(base.dtype()))
    in_context("power", {&base}, lhs.where(), [&] {
      fail("a power {} of {} is a fraction; convert the integers with .to() first", rhs.number(), base.type().str());
    });
  return arithmetic(lhs, rhs, "power", ops::power);
}
Tensor exp(Operand x) { return unary(x, "exponential", ops::exp); }
Tensor expm1(Operand x) { return unary(x, "expm1", ops::exp_minus_one); }
Tensor log(Operand x) { return unary(x, "log", ops::log); }
Tensor log1p(Operand x) { return unary(x, "log1p", ops::log_plus_one); }
Tensor floor(Operand x) { return unary(x, "floor", ops::floor); }
Tensor ceil(Operand x) { return unary(x, "ceil", ops::ceil); }
Tensor round(Operand x) { return unary(x, "round", ops::round_nearest_even); }
Tensor reciprocal(Operand x) {
  return unary(x, "reciprocal", [](Value v) { return quotient(constant_like(v, 1), v); });
}
Tensor sqrt(Operand x) { return unary(x, "sqrt", ops::sqrt); }
Tensor rsqrt(Operand x) { return unary(x, "rsqrt", ops::rsqrt); }
Tensor tanh(Operand x) { return unary(x, "tanh", ops::tanh); }
Tensor sin(Operand x) { return unary(x, "sine", ops::sin); }
Tensor cos(Operand x) { return unary(x, "cosine", ops::cos); }
Tensor erf(Operand x) { return unary(x, "erf", ops::erf); }
Tensor abs(Operand x) { return unary(x, "abs", ops::abs); }
Tensor sign(Operand x) { return unary(x, "sign", ops::sign); }
Tensor sigmoid(Operand x) { return unary(x, "logistic", ops::logistic); }
Tensor square(Operand x) {
  return unary(x, "square", [](Value v) { return ops::multiply(v, v); });
}
Tensor clamp(Operand x, ClampOptions bounds) {
  return unary(x, "clamp", [&](Value v) {
    const DType dtype = v.type().dtype();
    require(!bounds.min || !bounds.max || *bounds.min <= *bounds.max, "the lower bound {} is above the upper bound {}",
            bounds.min.value_or(0), bounds.max.value_or(0));
    // A bound that all numbers of the type satisfy has no effect.
    const auto bound = [&](const std::optional<double>& given, Reduction otherwise, NumberPlace idle) {
      if (!given || place_of(*given, dtype) == idle)
        return ops::constant(*v.builder, reduction_identity(otherwise, dtype));
      check_number(*given, v.type());
      return trace().scalar(dtype, *given);
    };
    return ops::clamp(bound(bounds.min, Reduction::kMax, NumberPlace::kBelow), v,
                      bound(bounds.max, Reduction::kMin, NumberPlace::kAbove));
  });
}

Tensor where(Operand predicate, Operand on_true, Operand on_false) {
  return at_place({&predicate, &on_true, &on_false}, "where", [&] {
    require(!predicate.is_number() && predicate.tensor().dtype() == DType::kPred, "the predicate must be pred");
    const auto [x, y] = broadcast_operands(on_true, on_false);
    const Value p = trace().use(predicate.tensor());
    const Dims dims = broadcast_dims(p.type().dims(), x.type().dims());
    return ops::select(broadcast_value(p, dims), broadcast_value(x, dims), broadcast_value(y, dims));
  });
}

namespace {

Value truth_of(Value v) {
  return v.type().dtype() == DType::kPred ? v : ops::compare(v, constant_like(v, 0), CompareDirection::kNe);
}

Tensor logical(const Operand& lhs, const Operand& rhs, std::string_view name, Binary op) {
  return at_place({&lhs, &rhs}, name, [&] {
    const Value x = truth_of(operand_value(lhs));
    const Value y = truth_of(operand_value(rhs));
    const Dims dims = broadcast_dims(x.type().dims(), y.type().dims());
    return op(broadcast_value(x, dims), broadcast_value(y, dims));
  });
}

}  // namespace

Tensor logical_and(Operand lhs, Operand rhs) { return logical(lhs, rhs, "logical_and", ops::logical_and); }
Tensor logical_or(Operand lhs, Operand rhs) { return logical(lhs, rhs, "logical_or", ops::logical_or); }
Tensor logical_xor(Operand lhs, Operand rhs) { return logical(lhs, rhs, "logical_xor", ops::logical_xor); }
Tensor logical_not(Operand x) {
  return unary(x, "logical_not", [](Value v) { return ops::logical_not(truth_of(v)); });
}
Tensor isnan(Operand x) {
  return unary(x, "isnan", [](Value v) { return ops::compare(v, v, CompareDirection::kNe); });
}
Tensor isfinite(Operand x) {
  return unary(x, "isfinite", [](Value v) {
    const bool is_exact = is_integer(v.type().dtype()) || v.type().dtype() == DType::kPred;
    return is_exact ? trace().full(v.type().with_dtype(DType::kPred), 1) : ops::is_finite(v);
  });
}

Tensor masked_fill(Operand x, Operand mask, Operand value) {
  return at_place({&x, &mask, &value}, "masked_fill", [&] {
    const Value v = operand_value(x);
    const Value m = operand_value(mask);
    require(m.type().dtype() == DType::kPred, "the mask must be pred, got {}", m.type());
    require(broadcast_dims(m.type().dims(), v.type().dims()) == v.type().dims(), "the mask {} does not broadcast to {}",
            m.type(), v.type());
    require(value.is_number() || value.tensor().ndim() == 0, "the value must be a number or a scalar, got {}",
            [&] { return value.tensor().type().str(); });
    const Value fill = value.is_number()
                           ? broadcast_operands(x, value).rhs
                           : ops::splat(narrowed(operand_value(value), v.type().dtype()), v.type().dims());
    return ops::select(broadcast_value(m, v.type().dims()), fill, v);
  });
}

Tensor cond(Operand predicate, Operand on_true, Operand on_false) {
  in_context("cond", {&predicate.tensor(), &on_true.tensor(), &on_false.tensor()}, predicate.where(), [&] {
    require(!predicate.is_number() && predicate.tensor().ndim() == 0, "the predicate must be a pred scalar");
  });
  return where(predicate, on_true, on_false);
}

}  // namespace tessera

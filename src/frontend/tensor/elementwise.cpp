// SPDX-License-Identifier: Apache-2.0
// Elementwise operators and functions.
#include <cmath>
#include <numbers>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/trace.h"
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
    return trace().record(first.where(), [&](Builder&) { return emit(); });
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
    const auto [x, y] = broadcast_operands(lhs, rhs);
    return op(x, y);
  });
}
Tensor compare(const Operand& lhs, const Operand& rhs, CompareDirection direction) {
  return at_place({&lhs, &rhs}, "compare", [&] {
    const auto [x, y] = broadcast_operands(lhs, rhs);
    return ops::compare(x, y, direction);
  });
}
template <class F>
Tensor unary(const Operand& x, std::string_view name, F&& op) {
  return at_place({&x}, name, [&] { return op(operand_value(x)); });
}

}  // namespace

Tensor operator+(Operand lhs, Operand rhs) { return binary(lhs, rhs, "add", ops::add); }
Tensor operator-(Operand lhs, Operand rhs) { return binary(lhs, rhs, "subtract", ops::subtract); }
Tensor operator*(Operand lhs, Operand rhs) { return binary(lhs, rhs, "multiply", ops::multiply); }
Tensor operator/(Operand lhs, Operand rhs) { return binary(lhs, rhs, "divide", ops::divide); }
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

Tensor maximum(Operand lhs, Operand rhs) { return binary(lhs, rhs, "maximum", ops::maximum); }
Tensor minimum(Operand lhs, Operand rhs) { return binary(lhs, rhs, "minimum", ops::minimum); }
Tensor pow(Operand lhs, Operand rhs) { return binary(lhs, rhs, "power", ops::power); }
Tensor remainder(Operand lhs, Operand rhs) { return binary(lhs, rhs, "remainder", ops::remainder); }
Tensor exp(Operand x) { return unary(x, "exponential", ops::exp); }
Tensor log(Operand x) { return unary(x, "log", ops::log); }
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
Tensor relu(Operand x) {
  return unary(x, "relu", [](Value v) { return ops::maximum(v, constant_like(v, 0)); });
}
Tensor gelu(Operand x) {
  return unary(x, "gelu", [](Value v) {
    const Value scaled = ops::multiply(v, constant_like(v, std::numbers::sqrt2 / 2));
    const Value twice_phi = ops::add(ops::erf(scaled), constant_like(v, 1));
    return ops::multiply(ops::multiply(v, constant_like(v, 0.5)), twice_phi);
  });
}
Tensor gelu_new(Operand x) {
  return unary(x, "gelu_new", [](Value v) {
    const Value cube = ops::multiply(ops::multiply(v, v), v);
    const Value inner = ops::add(v, ops::multiply(cube, constant_like(v, 0.044715)));
    const Value t = ops::tanh(ops::multiply(inner, constant_like(v, std::sqrt(2 / std::numbers::pi))));
    return ops::multiply(ops::multiply(v, constant_like(v, 0.5)), ops::add(t, constant_like(v, 1)));
  });
}

Tensor where(Operand predicate, Operand on_true, Operand on_false) {
  return at_place({&predicate, &on_true, &on_false}, "select", [&] {
    require(!predicate.is_number() && predicate.tensor().dtype() == DType::kPred, "the predicate must be pred");
    const auto [x, y] = broadcast_operands(on_true, on_false);
    const Value p = trace().use(predicate.tensor());
    const Dims dims = broadcast_dims(p.type().dims(), x.type().dims());
    return ops::select(broadcast_value(p, dims), broadcast_value(x, dims), broadcast_value(y, dims));
  });
}

Tensor cond(Operand predicate, Operand on_true, Operand on_false) {
  in_context("cond", {&predicate.tensor(), &on_true.tensor(), &on_false.tensor()}, predicate.where(), [&] {
    require(!predicate.is_number() && predicate.tensor().ndim() == 0, "the predicate must be a pred scalar");
  });
  return where(predicate, on_true, on_false);
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "tensor/broadcast.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/autocast_values.h"
#include "tensor/number_types.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/structural.h"

namespace tessera {

int checked_dim(const Type& type, int dim) {
  if (dim < -type.ndim() || dim >= type.ndim()) fail("{} has no dim {}", type.str(), dim);
  return dim < 0 ? dim + type.ndim() : dim;
}

int checked_line_dim(const Type& type, int dim) {
  return type.ndim() == 0 && (dim == 0 || dim == -1) ? 0 : checked_dim(type, dim);
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  if (a == b) return a;
  Dims out(std::max(a.size(), b.size()));
  const auto size = [](const Dims& dims, std::size_t from_end) {
    return from_end < dims.size() ? dims[dims.size() - 1 - from_end] : std::int64_t{1};
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = size(a, i);
    const std::int64_t y = size(b, i);
    if (x != y && x != 1 && y != 1)
      fail("shapes [{}] and [{}] do not broadcast: sizes {} and {} at dim {} from the end", fmt::join(a, ","),
           fmt::join(b, ","), x, y, i + 1);
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Value broadcast_value(Value x, const Dims& dims) {
  const Dims from = x.type().dims();
  if (from == dims) return x;
  if (broadcast_dims(from, dims) != dims) fail("{} does not broadcast to [{}]", x.type().str(), fmt::join(dims, ","));
  const std::int64_t lead = isize(dims) - isize(from);
  Dims kept;    // sizes of the dims that are not repeated
  Dims places;  // the positions of these dims in the result
  for (std::int64_t i = 0; i < isize(from); ++i) {
    if (at(from, i) == 1 && at(dims, lead + i) != 1) continue;
    kept.push_back(at(from, i));
    places.push_back(lead + i);
  }
  if (kept != from) x = ops::reshape(x, std::move(kept));
  return ops::broadcast(x, dims, std::move(places));
}

Value operand_value(const Operand& operand) {
  if (operand.is_number()) return trace().scalar(DType::kF32, operand.number());
  return trace().use(operand.tensor());
}

namespace {

// Returns the number in the type of the other operand. Refuses a number that this type cannot represent.
Value number_like(Value other, double number) {
  if (other.type().dtype() == DType::kPred && number != 0 && number != 1) fail_pred_with_number(number, other.type());
  check_number(number, other.type(), "the other operand");
  return trace().full(other.type(), number);
}

OperandPair broadcast_values(Value x, Value y) {
  require(x.type().dtype() == y.type().dtype(), "operands have element types {} and {}; convert one with .to()",
          dtype_name(x.type().dtype()), dtype_name(y.type().dtype()));
  const Dims dims = broadcast_dims(x.type().dims(), y.type().dims());
  return {broadcast_value(x, dims), broadcast_value(y, dims)};
}

}  // namespace

OperandPair broadcast_operands(const Operand& lhs, const Operand& rhs, std::string_view function) {
  require(!lhs.is_number() || !rhs.is_number(), "one operand must be a tensor");
  if (lhs.is_number()) {
    const Value y = autocast_value(function, rhs);
    return {number_like(y, lhs.number()), y};
  }
  const Value x = autocast_value(function, lhs);
  if (rhs.is_number()) return {x, number_like(x, rhs.number())};
  const Value y = autocast_value(function, rhs);
  std::vector<Value> values{x, y};
  widen_in_autocast(values);
  return broadcast_values(values[0], values[1]);
}

}  // namespace tessera

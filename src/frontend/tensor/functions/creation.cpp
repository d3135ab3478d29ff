// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/creation.h"

#include <algorithm>
#include <cmath>

#include "tensor/number_types.h"
#include "tessera/frontend/tensor/bounded.h"
#include "tessera/frontend/tensor/shaping.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {

namespace {

Tensor filled(std::string_view name, const Shape& shape, double value, DType dtype, const std::source_location& where) {
  const Type type = in_context(name, {}, where, [&] { return Type::array(dtype, shape); });
  return Tensor::full(type, value, where);
}

}  // namespace

Tensor zeros(const Shape& shape, DType dtype, std::source_location where) {
  return filled("zeros", shape, 0, dtype, where);
}
Tensor ones(const Shape& shape, DType dtype, std::source_location where) {
  return filled("ones", shape, 1, dtype, where);
}
Tensor full(const Shape& shape, double value, DType dtype, std::source_location where) {
  return filled("full", shape, value, dtype, where);
}
Tensor zeros_like(const Tensor& like, std::optional<DType> dtype, std::source_location where) {
  return full_like(like, 0, dtype, where);
}
Tensor ones_like(const Tensor& like, std::optional<DType> dtype, std::source_location where) {
  return full_like(like, 1, dtype, where);
}
Tensor full_like(const Tensor& like, double value, std::optional<DType> dtype, std::source_location where) {
  return full(like.shape(), value, dtype.value_or(like.dtype()), where);
}

namespace {

template <class F>
Tensor created(std::string_view name, const std::source_location& where, F&& emit) {
  return in_context(name, {}, where, [&] { return trace().record(where, emit); });
}

// 0, 1, … as s64.
Value positions_of(Builder& builder, std::int64_t count) {
  return ops::iota(builder, Type::array(DType::kS64, {count}), 0);
}

}  // namespace

Tensor detail::arange(double start, double end, double step, DType dtype, const std::source_location& where) {
  return created("arange", where, [&](Builder& builder) {
    require(step != 0 && std::isfinite(start) && std::isfinite(end) && std::isfinite(step),
            "needs finite numbers and a step other than 0, got {}, {} and step {}", start, end, step);
    require(is_float(dtype) || (start == std::trunc(start) && step == std::trunc(step)),
            "{} and step {} are not integers, but the element type is {}", start, step, dtype_name(dtype));
    const auto count = static_cast<std::int64_t>(std::max(0.0, std::ceil((end - start) / step)));
    if (count > 0) {
      const Type type = Type::array(dtype, {count});
      check_number(start, type, "the result", kTypeAdvice);
      check_number(start + static_cast<double>(count - 1) * step, type, "the result", kTypeAdvice);
    }
    const DType exact = is_float(dtype) ? DType::kF64 : DType::kS64;
    const Value i = narrowed(positions_of(builder, count), exact);
    const Value scaled = step == 1 ? i : ops::multiply(i, constant_like(i, step));
    return narrowed(start == 0 ? scaled : ops::add(scaled, constant_like(i, start)), dtype);
  });
}

namespace {

// `steps` numbers from `start` to `end`, as f64.
Value evenly_spaced(Builder& builder, double start, double end, std::int64_t steps) {
  require(steps >= 0, "needs a number of steps, got {}", steps);
  const Value i = ops::convert(positions_of(builder, steps), DType::kF64);
  if (steps == 1) return constant_like(i, start);
  // Counts from the nearer end, so that both ends are exact.
  const double step = (end - start) / static_cast<double>(steps - 1);
  const Value rest = ops::subtract(constant_like(i, static_cast<double>(steps - 1)), i);
  const Value is_first_half = ops::compare(i, rest, CompareDirection::kLt);
  const Value up = ops::add(ops::multiply(i, constant_like(i, step)), constant_like(i, start));
  const Value down = ops::subtract(constant_like(i, end), ops::multiply(rest, constant_like(i, step)));
  return ops::select(is_first_half, up, down);
}

}  // namespace

Tensor linspace(double start, double end, std::int64_t steps, DType dtype, std::source_location where) {
  return created("linspace", where, [&](Builder& builder) {
    require(is_float(dtype), "needs a float type, got {}", dtype_name(dtype));
    return narrowed(evenly_spaced(builder, start, end, steps), dtype);
  });
}

Tensor logspace(double start, double end, std::int64_t steps, double base, DType dtype, std::source_location where) {
  return created("logspace", where, [&](Builder& builder) {
    require(is_float(dtype), "needs a float type, got {}", dtype_name(dtype));
    const Value exponents = evenly_spaced(builder, start, end, steps);
    return narrowed(ops::power(constant_like(exponents, base), exponents), dtype);
  });
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, DType dtype, std::source_location where) {
  return created("eye", where, [&](Builder& builder) {
    require(rows >= 0 && columns.value_or(rows) >= 0, "needs numbers of rows and columns, got {} and {}", rows,
            columns.value_or(rows));
    const Type indices = Type::array(DType::kS32, {rows, columns.value_or(rows)});
    return narrowed(ops::compare(ops::iota(builder, indices, 0), ops::iota(builder, indices, 1), CompareDirection::kEq),
                    dtype);
  });
}

namespace {

// The positions of a triangle of [rows, columns], which has count(row) elements in a row.
template <class Count>
Tensor triangle_indices(std::string_view name, std::int64_t rows, std::int64_t columns, std::int64_t offset,
                        Tensor (*triangle)(Operand, std::int64_t), Count&& count, const std::source_location& where) {
  const std::int64_t total = in_context(name, {}, where, [&] {
    require(rows >= 0 && columns >= 0, "needs numbers of rows and columns, got {} and {}", rows, columns);
    std::int64_t sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += std::clamp<std::int64_t>(count(row), 0, columns);
    return sum;
  });
  if (total == 0) return zeros({2, 0}, kS32, where);
  const Tensor kept = triangle({ones({rows, columns}, kBool, where), where}, offset);
  return nonzero({kept, where}, {.size = total}).t(where);
}

}  // namespace

Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset, std::source_location where) {
  const auto count = [&](std::int64_t row) { return row + offset + 1; };
  return triangle_indices("tril_indices", rows, columns, offset, tril, count, where);
}
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset, std::source_location where) {
  const auto count = [&](std::int64_t row) { return columns - row - offset; };
  return triangle_indices("triu_indices", rows, columns, offset, triu, count, where);
}

}  // namespace tessera

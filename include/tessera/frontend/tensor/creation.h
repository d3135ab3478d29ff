// SPDX-License-Identifier: Apache-2.0
// New tensors. The element type is f32 unless the call gives another one: `zeros({2, 3})`, `zeros({2, 3}, kF64)`.
#pragma once

#include <optional>
#include <type_traits>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

Tensor zeros(const Shape& shape, DType dtype = kF32, std::source_location where = std::source_location::current());
Tensor ones(const Shape& shape, DType dtype = kF32, std::source_location where = std::source_location::current());
/// All elements equal to `value`.
Tensor full(const Shape& shape, double value, DType dtype = kF32,
            std::source_location where = std::source_location::current());
/// The shape of `like`, and its element type unless the call gives another one.
Tensor zeros_like(const Tensor& like, std::optional<DType> dtype = {},
                  std::source_location where = std::source_location::current());
Tensor ones_like(const Tensor& like, std::optional<DType> dtype = {},
                 std::source_location where = std::source_location::current());
Tensor full_like(const Tensor& like, double value, std::optional<DType> dtype = {},
                 std::source_location where = std::source_location::current());

namespace detail {
Tensor arange(double start, double end, double step, DType dtype, const std::source_location& where);
template <class T>
concept Number = std::is_arithmetic_v<T>;
}  // namespace detail

/// start, start + step, … before `end`. Without an element type: s32 if all numbers are integers, else f32.
template <detail::Number A, detail::Number B, detail::Number C = int>
Tensor arange(A start, B end, C step = 1, std::optional<DType> dtype = {},
              std::source_location where = std::source_location::current()) {
  constexpr bool kIntegers = std::is_integral_v<A> && std::is_integral_v<B> && std::is_integral_v<C>;
  return detail::arange(static_cast<double>(start), static_cast<double>(end), static_cast<double>(step),
                        dtype.value_or(kIntegers ? kS32 : kF32), where);
}
/// 0, 1, … before `end`.
template <detail::Number A>
Tensor arange(A end, std::optional<DType> dtype = {}, std::source_location where = std::source_location::current()) {
  return detail::arange(0, static_cast<double>(end), 1, dtype.value_or(std::is_integral_v<A> ? kS32 : kF32), where);
}
/// `steps` numbers at equal distances from `start` to `end`, which are both included.
Tensor linspace(double start, double end, std::int64_t steps, DType dtype = kF32,
                std::source_location where = std::source_location::current());
/// base^e for `steps` exponents e at equal distances from `start` to `end`.
Tensor logspace(double start, double end, std::int64_t steps, double base = 10, DType dtype = kF32,
                std::source_location where = std::source_location::current());
/// Ones on the diagonal of [rows, columns], zeros elsewhere. Without columns the matrix is square.
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, DType dtype = kF32,
           std::source_location where = std::source_location::current());
/// The rows and columns of the elements of a matrix on and below a diagonal (tril), or on and above it (triu), in
/// row-major order: s32[2, count]. Diagonal k is k columns to the right of the main one.
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0,
                    std::source_location where = std::source_location::current());
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0,
                    std::source_location where = std::source_location::current());

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Helpers to write elementwise functions that consist of several ops. Such a function computes 16-bit floats in f32 and
// rounds once, as PyTorch does.
#pragma once

#include <string_view>

#include "tracing/recorded.h"

namespace tessera {

inline void require_float_elements(const Type& type) {
  require(is_float(type.dtype()), "needs floats, got {}; convert it with .to() first", type);
}

/// Error if integers are divided by the number 0.
inline void check_divisor(std::string_view name, const Operand& lhs, const Operand& rhs) {
  const Tensor& x = lhs.tensor();
  if (rhs.is_number() && rhs.number() == 0 && !x.is_null() && is_integer(x.dtype()))
    in_context(name, {&x}, lhs.where(), [&] { fail("the integers {} are divided by 0", x.type().str()); });
}

/// Traces emit(x) on floats of at least 32 bits. The result has the element type of x. Error if x has no floats.
template <class F>
Tensor recorded_wide(std::string_view name, const Operand& x, F&& emit) {
  return recorded(name, x, [&](Value v) {
    require_float_elements(v.type());
    return narrowed(emit(widened(v)), v.type().dtype());
  });
}

/// Traces emit(lhs, rhs) on the operands, which broadcast. One of them may be a number.
template <class F>
Tensor recorded_broadcast(std::string_view name, const Operand& lhs, const Operand& rhs, F&& emit) {
  return in_context(name, {&lhs.tensor(), &rhs.tensor()}, lhs.where(), [&] {
    return trace().record(lhs.where(), [&](Builder& builder) {
      const CalledAs scope(builder, name);
      const auto [x, y] = broadcast_operands(lhs, rhs, name);
      return emit(x, y);
    });
  });
}

/// The same on floats of at least 32 bits.
template <class F>
Tensor recorded_wide(std::string_view name, const Operand& lhs, const Operand& rhs, F&& emit) {
  return recorded_broadcast(name, lhs, rhs, [&](Value x, Value y) {
    require_float_elements(x.type());
    return narrowed(emit(widened(x), widened(y)), x.type().dtype());
  });
}

}  // namespace tessera

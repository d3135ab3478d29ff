// SPDX-License-Identifier: Apache-2.0
// Helpers to write functions of tensors: tracing into the trace, and common values.
#pragma once

#include <string_view>
#include <utility>

#include "tensor/autocast_values.h"
#include "tensor/broadcast.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/error_context.h"

namespace tessera {

/// Errors of ops that are traced within this scope name the function of the user instead of the op.
class CalledAs {
 public:
  CalledAs(Builder& builder, std::string_view name)
      : builder_(builder), before_(std::exchange(builder.called_as, name)) {}
  ~CalledAs() { builder_.called_as = before_; }
  CalledAs(const CalledAs&) = delete;
  CalledAs& operator=(const CalledAs&) = delete;

 private:
  Builder& builder_;
  std::string_view before_;
};

/// Traces emit(values…) at the source location of the first operand. Errors contain `name` and the operands.
template <class F>
Tensor recorded(std::string_view name, const Operand& x, F&& emit) {
  return in_context(name, {&x.tensor()}, x.where(), [&] {
    return trace().record(x.where(), [&](Builder& builder) {
      const CalledAs scope(builder, name);
      return emit(autocast_value(name, x));
    });
  });
}
/// The same for two operands.
template <class F>
Tensor recorded(std::string_view name, const Operand& x, const Operand& y, F&& emit) {
  return in_context(name, {&x.tensor(), &y.tensor()}, x.where(), [&] {
    return trace().record(x.where(), [&](Builder& builder) {
      const CalledAs scope(builder, name);
      const Value first = autocast_value(name, x);  // the order decides the numbers of the program's parameters
      return emit(first, autocast_value(name, y));
    });
  });
}

inline Value constant_like(Value x, double value) { return trace().full(x.type(), value); }

/// Converts 16-bit floats to f32 for sums over many elements.
inline Value widened(Value x) {
  const DType type = x.type().dtype();
  return type == DType::kBF16 || type == DType::kF16 ? ops::convert(x, DType::kF32) : x;
}
/// True elements count as 1.
inline Value as_numbers(Value x) { return x.type().dtype() == DType::kPred ? ops::convert(x, DType::kS32) : x; }
inline Value narrowed(Value x, DType type) { return x.type().dtype() == type ? x : ops::convert(x, type); }
// Returns the same value, but no gradient flows through it.
inline Value stop_gradient(Value x) {
  Builder& builder = *x.builder;
  const NotesRef before = builder.default_notes;
  builder.default_notes = with_frontend_attribute(before, "tessera.stop_gradient", "true");
  const Value out = ops::copy(x);
  builder.default_notes = before;
  return out;
}

}  // namespace tessera

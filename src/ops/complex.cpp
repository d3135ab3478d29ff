// SPDX-License-Identifier: Apache-2.0
//   %z = c64[4] complex(%re, %im)      f32 parts; c128 from f64
//   %a = f32[4] real(%z)               of a real operand: the operand, and imag: zeros
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace rows {
namespace {

Type infer_complex(const OpView& view) {
  const Type& real = array_operand(view, 0);
  const Type& imaginary = array_operand(view, 1);
  require(real == imaginary, "the real and imaginary parts have different types: {} and {}", real, imaginary);
  require(real.dtype() == DType::kF32 || real.dtype() == DType::kF64, "parts must be f32 or f64, got {}", real);
  return declared_or(view, real.with_dtype(complex_dtype(real.dtype())));
}

Literal evaluate_complex(const EvalContext& context) {
  Literal out(context.view.result);
  visit_any_dtype(out.type().dtype(), [&]<class T>() {
    if constexpr (is_complex(kDTypeOf<T>)) {
      const auto real = context.operands[0].data<typename T::value_type>();
      const auto imaginary = context.operands[1].data<typename T::value_type>();
      auto to = out.mutable_data<T>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = T(real[i], imaginary[i]);
    }
  });
  return out;
}

Type infer_part(const OpView& view) {
  const Type& x = array_operand(view, 0);
  require(is_float(x.dtype()) || is_complex(x.dtype()), "takes complex or floating-point elements, got {}", x);
  return declared_or(view, x.with_dtype(real_dtype(x.dtype())));
}

Literal part(const EvalContext& context, bool is_real) {
  const Literal& x = context.operands[0];
  Literal out(context.view.result);
  if (!is_complex(x.type().dtype())) return is_real ? x : out;
  visit_any_dtype(x.type().dtype(), [&]<class T>() {
    if constexpr (is_complex(kDTypeOf<T>)) {
      const auto from = x.data<T>();
      auto to = out.mutable_data<typename T::value_type>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = is_real ? from[i].real() : from[i].imag();
    }
  });
  return out;
}

std::vector<Value> d_complex(GradientContext& c) { return {ops::real(c.d_result()), ops::imag(c.d_result())}; }
std::vector<Value> d_real(GradientContext& c) {
  if (!is_complex(c.view.operands[0].dtype())) return {c.d_result()};
  return {ops::complex(c.d_result(), full_like(c.d_result(), 0))};
}
std::vector<Value> d_imag(GradientContext& c) {
  if (!is_complex(c.view.operands[0].dtype())) return {full_like(c.d_result(), 0)};
  return {ops::complex(full_like(c.d_result(), 0), c.d_result())};
}

OpDef part_row(std::string_view name, Literal (*evaluate)(const EvalContext&),
               std::vector<Value> (*gradient)(GradientContext&)) {
  return {.name = name,
          .min_operands = 1,
          .max_operands = 1,
          .elementwise = true,
          .infer = infer_part,
          .evaluate = evaluate,
          .gradient_kind = GradientKind::kFunction,
          .gradient = gradient,
          .factors = elementwise_factors,
          .linearity = jointly_linear,
          .flops = no_flops};
}

}  // namespace

const OpDef kComplex{.name = "complex",
                     .min_operands = 2,
                     .max_operands = 2,
                     .elementwise = true,
                     .infer = infer_complex,
                     .evaluate = evaluate_complex,
                     .gradient_kind = GradientKind::kFunction,
                     .gradient = d_complex,
                     .factors = elementwise_factors,
                     .linearity = jointly_linear,
                     .flops = no_flops};
const OpDef kReal = part_row(
    "real", [](const EvalContext& c) { return part(c, true); }, d_real);
const OpDef kImag = part_row(
    "imag", [](const EvalContext& c) { return part(c, false); }, d_imag);

}  // namespace rows

Value ops::complex(Value real, Value imaginary) { return real.builder->emit(rows::kComplex, {real, imaginary}); }
Value ops::real(Value x) { return x.builder->emit(rows::kReal, {x}); }
Value ops::imag(Value x) { return x.builder->emit(rows::kImag, {x}); }

}  // namespace tessera

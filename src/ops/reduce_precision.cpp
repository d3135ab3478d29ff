// SPDX-License-Identifier: Apache-2.0
//   %y = f32[4] reduce-precision(%x), exponent_bits=5, mantissa_bits=10     rounded like a narrower float
//   %z = s32[4] stochastic-convert(%x, %bits)                               rounded up with a probability: the fraction
#include <cmath>
#include <limits>

#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_reduce_precision(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const auto& [exponent, mantissa] = view.as<ReducePrecisionAttributes>();
  require(is_float(x.dtype()), "takes floating-point elements, got {}", x);
  require(exponent >= 1 && exponent <= 11 && mantissa >= 0 && mantissa <= 52,
          "no float type has exponent_bits={} and mantissa_bits={}", exponent, mantissa);
  return declared_or(view, x);
}

// Rounds ties to even. Numbers that are too large become infinite; numbers below the normal range become zero with
// their sign.
double reduced(double x, int exponent_bits, int mantissa_bits) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int unit = exponent - 1 - mantissa_bits;
  const double scaled = std::scalbn(x, -unit);
  double significand = std::nearbyint(scaled);
  // Without mantissa bits, the even neighbour of a tie is the one with an even exponent field (all biases are odd).
  if (mantissa_bits == 0 && std::fabs(scaled) == 1.5)
    significand = std::copysign((exponent - 1) % 2 == 0 ? 2.0 : 1.0, x);
  const double rounded = std::ldexp(significand, unit);
  if (std::isinf(rounded)) return rounded;
  std::frexp(rounded, &exponent);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent - 1 > bias) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (exponent - 1 < 1 - bias) return std::copysign(0.0, x);
  return rounded;
}

Literal evaluate_reduce_precision(const EvalContext& context) {
  const auto& [exponent, mantissa] = context.view.as<ReducePrecisionAttributes>();
  Literal out(context.view.result);
  visit_dtype(out.type().dtype(), [&]<class T>() {
    if constexpr (is_float(kDTypeOf<T>)) {
      const auto from = context.operands[0].data<T>();
      auto to = out.mutable_data<T>();
      // Bits that the type does not have make no difference. If its exponent is kept, its subnormals stay too.
      constexpr int kExponent = sizeof(T) == 8 ? 11 : kDTypeOf<T> == DType::kF16 ? 5 : 8;
      constexpr int kMantissa = sizeof(T) == 8 ? 52 : sizeof(T) == 4 ? 23 : kDTypeOf<T> == DType::kF16 ? 10 : 7;
      const bool same = exponent >= kExponent && mantissa >= kMantissa;
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = same ? from[i]
                     : static_cast<T>(reduced(static_cast<double>(from[i]), static_cast<int>(exponent),
                                              static_cast<int>(std::min<std::int64_t>(mantissa, kMantissa))));
    }
  });
  return out;
}

// The gradient of the identity, as for any rounding of a float type.
std::vector<Value> gradient_reduce_precision(GradientContext& c) {
  return {c.builder.emit(c.view.op, {c.d_result()}, c.view.attributes)};
}

// ---- stochastic-convert --------------------------------------------------------------------------------------------

Type infer_stochastic(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Type& bits = array_operand(view, 1);
  const Type& declared = declared_array(view);
  require(is_float(x.dtype()), "takes floating-point elements, got {}", x);
  require(is_unsigned_int(bits.dtype()) && dtype_size(bits.dtype()) == dtype_size(x.dtype()) && bits.dims() == x.dims(),
          "the random bits must be unsigned integers of the operand's width and dims, got {} for {}", bits, x);
  require(is_signed_int(declared.dtype()) && declared.dims() == x.dims(),
          "converts to signed integers of the operand's dims, not to {}", declared);
  return declared;
}

Literal evaluate_stochastic(const EvalContext& context) {
  Literal out(context.view.result);
  const Literal& x = context.operands[0];
  const int width = static_cast<int>(8 * dtype_size(x.type().dtype()));
  visit_dtype(out.type().dtype(), [&]<class T>() {
    if constexpr (is_signed_int(kDTypeOf<T>)) {
      auto to = out.mutable_data<T>();
      for (std::size_t i = 0; i < to.size(); ++i) {
        const double value = element_as_double(x, static_cast<std::int64_t>(i));
        const double integral = std::floor(std::fabs(value));
        const auto random =
            static_cast<std::uint64_t>(element_as_int(context.operands[1], static_cast<std::int64_t>(i)));
        const bool up = std::ldexp(static_cast<double>(random), -width) < std::fabs(value) - integral;
        const double rounded = std::copysign(integral + (up ? 1 : 0), value);
        constexpr double kAbove = -static_cast<double>(std::numeric_limits<T>::min());
        if (std::isnan(value))
          to[i] = 0;
        else if (rounded >= kAbove)
          to[i] = std::numeric_limits<T>::max();
        else
          to[i] = rounded <= -kAbove ? std::numeric_limits<T>::min() : static_cast<T>(rounded);
      }
    }
  });
  return out;
}

}  // namespace

const OpDef kReducePrecision{.name = "reduce-precision",
                             .min_operands = 1,
                             .max_operands = 1,
                             .elementwise = true,
                             .parse = parse_attributes<ReducePrecisionAttributes>,
                             .infer = infer_reduce_precision,
                             .evaluate = evaluate_reduce_precision,
                             .gradient_kind = GradientKind::kFunction,
                             .gradient = gradient_reduce_precision,
                             .factors = elementwise_factors,
                             .linearity = monotone};
const OpDef kStochasticConvert{.name = "stochastic-convert",
                               .min_operands = 2,
                               .max_operands = 2,
                               .elementwise = true,
                               .infer = infer_stochastic,
                               .type_inferable = false,
                               .evaluate = evaluate_stochastic,
                               .gradient_kind = GradientKind::kZero,
                               .factors = elementwise_factors,
                               .localize = localize_declared};

}  // namespace rows

Value ops::reduce_precision(Value x, std::int64_t exponent_bits, std::int64_t mantissa_bits) {
  return x.builder->emit(rows::kReducePrecision, {x},
                         make_attributes(ReducePrecisionAttributes{exponent_bits, mantissa_bits}));
}

}  // namespace tessera

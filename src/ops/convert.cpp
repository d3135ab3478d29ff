// SPDX-License-Identifier: Apache-2.0
//   %y = s32[4] convert(%x)           float to integer truncates and saturates, NaN gives 0; else rounds once or wraps
//   %b = u8[3,4] bitcast-convert(%w)  u32[3]: the same bytes; a narrower type adds a minor dim, a wider one removes it
#include <cmath>
#include <cstring>
#include <limits>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera {
namespace rows {
namespace {

// ---- convert --------------------------------------------------------------------------------------------------------

Type infer_convert(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Type& declared = declared_array(view);
  if (x.dims() != declared.dims()) fail("dims differ: operand {}, declared result {}", x.str(), declared.str());
  if (is_complex(x.dtype()) && !is_complex(declared.dtype()))
    fail("complex elements cannot be converted to {}: take real or imag of {}", dtype_name(declared.dtype()), x.str());
  return declared;
}

// A double that rounds to any narrower float as `x` does: bits beyond 53 become a sticky lowest bit.
template <class From>
double exact_enough(From x) {
  if constexpr (sizeof(From) < 8) {
    return static_cast<double>(x);
  } else {
    const bool negative = x < 0;
    const std::uint64_t size =
        negative ? std::uint64_t{0} - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
    if (size >> 53 == 0) return static_cast<double>(x);
    const std::uint64_t sticky = (size >> 11) | static_cast<std::uint64_t>((size & 0x7ff) != 0);
    return (negative ? -1.0 : 1.0) * std::ldexp(static_cast<double>(sticky), 11);
  }
}

template <class To>
To saturated(double x) {
  if (std::isnan(x)) return 0;
  // The largest 64-bit integers are not representable as double: compare with the next power of two.
  const double above = std::ldexp(1.0, std::numeric_limits<To>::digits);
  if (x >= above) return std::numeric_limits<To>::max();
  if (x <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(x);
}

template <class To, class From>
To convert_element(From x) {
  constexpr DType kTo = kDTypeOf<To>;
  constexpr DType kFrom = kDTypeOf<From>;
  if constexpr (kTo == kFrom) {
    return x;
  } else if constexpr (is_complex(kTo)) {
    using Part = typename To::value_type;
    if constexpr (is_complex(kFrom))
      return To(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
    else
      return To(convert_element<Part>(x));
  } else if constexpr (is_complex(kFrom)) {
    return convert_element<To>(x.real());  // infer rejects it
  } else if constexpr (is_float(kFrom)) {
    const auto value = static_cast<double>(x);
    if constexpr (is_float(kTo))
      return static_cast<To>(value);
    else if constexpr (kTo == DType::kPred)
      return value != 0;
    else
      return saturated<To>(value);
  } else if constexpr (kTo == DType::kPred) {
    return x != 0;
  } else if constexpr (kTo == DType::kF64) {
    return static_cast<double>(x);
  } else if constexpr (is_float(kTo)) {
    return static_cast<To>(exact_enough(x));
  } else {
    return static_cast<To>(x);
  }
}

int width_in_bits(DType t) {
  switch (t) {
    case DType::kS1:
    case DType::kU1: return 1;
    case DType::kS2:
    case DType::kU2: return 2;
    case DType::kS4:
    case DType::kU4:
    case DType::kF4E2M1FN: return 4;
    default: return static_cast<int>(8 * dtype_size(t));
  }
}

// Saturates to the range of an integer type of a few bits.
double within(DType to, double x) {
  const bool is_signed = to == DType::kS1 || to == DType::kS2 || to == DType::kS4;
  const double above = std::ldexp(1.0, width_in_bits(to) - (is_signed ? 1 : 0));
  return std::isnan(x) ? 0 : std::fmax(std::fmin(x, above - 1), is_signed ? -above : 0);
}

Literal converted_through_double(const Literal& x, Literal out) {
  const DType to = out.type().dtype();
  const DType from = x.type().dtype();
  const bool to_narrow_integer = is_narrow_integer(to);
  const bool truncates = to_narrow_integer && is_any_float(from);
  for (std::int64_t i = 0; i < out.type().element_count(); ++i) {
    double value = 0;
    if (to_narrow_integer && !truncates)
      value = static_cast<double>(element_as_int(x, i) & 0xf);
    else
      value = truncates ? within(to, element_as_double(x, i)) : element_as_double(x, i);
    if (is_narrow(to))
      at(out.mutable_bytes(), i) = static_cast<std::byte>(narrow_bits(to, value));
    else
      visit_any_dtype(to, [&]<class T>() { at(out.mutable_data<T>(), i) = convert_element<T>(value); });
  }
  return out;
}

Literal evaluate_convert(const EvalContext& context) {
  const Literal& x = context.operands[0];
  Literal out(context.view.result);
  if (is_narrow(x.type().dtype()) || is_narrow(out.type().dtype())) return converted_through_double(x, std::move(out));
  visit_any_dtype(x.type().dtype(), [&]<class From>() {
    const auto from = x.data<From>();
    visit_any_dtype(out.type().dtype(), [&]<class To>() {
      auto to = out.mutable_data<To>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = convert_element<To>(from[i]);
    });
  });
  return out;
}

std::vector<Value> gradient_convert(GradientContext& c) {
  const DType from = c.operand(0).type().dtype();
  const DType to = c.view.result.dtype();
  if (is_float(from) && is_complex(to)) return {ops::convert(ops::real(c.d_result()), from)};
  if (is_float(from) != is_float(to) || is_complex(from) != is_complex(to) || !(is_float(from) || is_complex(from)))
    return {Value{}};
  return {ops::convert(c.d_result(), c.sum_type(0))};
}

// Widening keeps sums exact. Narrowing would round each partial value, so reduce first. All conversions except wrapping
// ones preserve order.
Linearity convert_linearity(const OpView& view, int) {
  const DType from = view.operands[0].dtype();
  const DType to = view.result.dtype();
  if ((is_float(from) || is_complex(from)) && is_complex(to))
    return from == DType::kC128 && to == DType::kC64 ? Linearity::kNone : Linearity::kJointlyLinear;
  if (!is_float(from) || !is_float(to)) return Linearity::kNone;
  const bool widens = from == to || to == DType::kF64 || (to == DType::kF32 && from != DType::kF64);
  return widens ? Linearity::kLinear : Linearity::kMonotone;
}

// ---- bitcast-convert ------------------------------------------------------------------------------------------------

Type infer_bitcast(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Type& declared = declared_array(view);
  if ((x.dtype() == DType::kPred) != (declared.dtype() == DType::kPred))
    fail("pred has no bits to reinterpret: {} to {}", x.str(), declared.str());
  const int from = width_in_bits(x.dtype());
  const int to = width_in_bits(declared.dtype());
  Dims expected = x.dims();
  if (from > to) expected.push_back(from / to);
  if (from < to) {
    if (x.ndim() == 0 || x.dims().back() != to / from)
      fail("conversion from {} to {} bits per element: the last dim of {} must be {}", from, to, x.str(), to / from);
    expected.pop_back();
  }
  if (declared.dims() != expected)
    fail("{} reinterpreted as {} has dims {}, but {} are declared", x.str(), dtype_name(declared.dtype()),
         dims_text(expected), dims_text(declared.dims()));
  return declared;
}

// Elements of less than a byte are stored in one byte each: the lowest bits come first.
Literal bits_recast(const Literal& x, Literal out) {
  std::vector<bool> bits;
  const auto each = [](const Literal& array, const auto& f) {
    const int width = width_in_bits(array.type().dtype());
    const auto size = dtype_size(array.type().dtype());
    for (std::int64_t i = 0; i < array.type().element_count(); ++i)
      for (int b = 0; b < width; ++b) f(i * size + b / 8, b % 8);
  };
  each(x, [&](std::int64_t byte, int bit) {
    bits.push_back(((std::to_integer<int>(at(x.bytes(), byte)) >> bit) & 1) != 0);
  });
  std::size_t next = 0;
  each(out, [&](std::int64_t byte, int bit) {
    if (bits[next++]) at(out.mutable_bytes(), byte) |= static_cast<std::byte>(1 << bit);
  });
  return out;
}

Literal evaluate_bitcast(const EvalContext& context) {
  Literal out(context.view.result);
  if (has_narrow(context)) return bits_recast(context.operands[0], std::move(out));
  const auto from = context.operands[0].bytes();
  if (!from.empty()) std::memcpy(out.mutable_bytes().data(), from.data(), from.size());
  return out;
}

FactorMap bitcast_factors(const OpView& view) {
  const Type& x = view.operands[0];
  FactorMap map;
  const bool result_is_longer = view.result.ndim() > x.ndim();
  const TensorFactors shorter = add_factors(map, result_is_longer ? x : view.result);
  TensorFactors longer = shorter;
  if (x.ndim() != view.result.ndim())
    longer.push_back({map.add((result_is_longer ? view.result : x).dims().back(), FactorKind::kBlocked)});
  map.operands = {result_is_longer ? shorter : longer};
  map.results = {result_is_longer ? longer : shorter};
  return map;
}

}  // namespace

const OpDef kConvert{
    .name = "convert",
    .min_operands = 1,
    .max_operands = 1,
    .elementwise = true,
    .inexpensive = true,
    .infer = infer_convert,
    .type_inferable = false,
    .evaluate = evaluate_convert,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_convert,
    .factors = elementwise_factors,
    .linearity = convert_linearity,
    .localize = localize_declared,
};

const OpDef kBitcastConvert{
    .name = "bitcast-convert",
    .min_operands = 1,
    .max_operands = 1,
    .infer = infer_bitcast,
    .type_inferable = false,
    .evaluate = evaluate_bitcast,
    .batch = batch_same,
    .factors = bitcast_factors,
    .localize = localize_declared,
    .flops = no_flops,
};

}  // namespace rows

Value ops::convert(Value x, DType to) {
  if (x.type().is_array() && x.type().dtype() == to) return x;
  return x.builder->emit(rows::kConvert, {x}, nullptr,
                         {.type = x.type().is_array() ? x.type().with_dtype(to) : Type()});
}
Value ops::bitcast_convert(Value x, Type to) {
  return x.builder->emit(rows::kBitcastConvert, {x}, nullptr, {.type = std::move(to)});
}

}  // namespace tessera

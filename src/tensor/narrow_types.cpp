// SPDX-License-Identifier: Apache-2.0
// The values of integers of less than a byte and of floats of 8 bits or less.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/tensor/dtype.h"

namespace tessera {
namespace {

enum class Specials : std::uint8_t {
  kIeee,      // has infinity, and NaNs above it
  kOneNan,    // all ones is NaN; there is no infinity
  kUnsigned,  // the code of -0 is NaN; there is no infinity
  kNone
};
struct Format {
  DType dtype;
  int bits;
  int mantissa;
  int bias;
  Specials specials;
  bool is_signed = true;
};
constexpr std::array<Format, 9> kFormats = {{{DType::kF4E2M1FN, 4, 1, 1, Specials::kNone},
                                             {DType::kF8E3M4, 8, 4, 3, Specials::kIeee},
                                             {DType::kF8E4M3, 8, 3, 7, Specials::kIeee},
                                             {DType::kF8E4M3B11FNUZ, 8, 3, 11, Specials::kUnsigned},
                                             {DType::kF8E4M3FN, 8, 3, 7, Specials::kOneNan},
                                             {DType::kF8E4M3FNUZ, 8, 3, 8, Specials::kUnsigned},
                                             {DType::kF8E5M2, 8, 2, 15, Specials::kIeee},
                                             {DType::kF8E5M2FNUZ, 8, 2, 16, Specials::kUnsigned},
                                             {DType::kF8E8M0FNU, 8, 0, 127, Specials::kOneNan, false}}};

int integer_width(DType t) {
  switch (t) {
    case DType::kS1:
    case DType::kU1: return 1;
    case DType::kS2:
    case DType::kU2: return 2;
    default: return 4;
  }
}
bool is_narrow_integer(DType t) { return t >= DType::kS1 && t <= DType::kU4; }
bool has_sign(DType t) { return t >= DType::kS1 && t <= DType::kS4; }

const Format& format_of(DType t) {
  for (const Format& format : kFormats)
    if (format.dtype == t) return format;
  throw InternalError("no narrow float");
}

double float_value(const Format& f, unsigned code) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const unsigned sign_bit = f.is_signed ? 1U << (f.bits - 1) : 0;
  const unsigned magnitude = code & ((1U << f.bits) - 1) & ~sign_bit;
  const unsigned most = (f.is_signed ? sign_bit : 1U << f.bits) - 1;
  const double sign = (code & sign_bit) != 0 ? -1 : 1;
  const unsigned fraction = magnitude & ((1U << f.mantissa) - 1);
  const int exponent = static_cast<int>(magnitude >> f.mantissa);
  const int top = static_cast<int>(most >> f.mantissa);
  if (f.specials == Specials::kIeee && exponent == top)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : kNan;
  if (f.specials == Specials::kOneNan && magnitude == most) return kNan;
  if (f.specials == Specials::kUnsigned && sign_bit != 0 && magnitude == 0 && sign < 0) return kNan;
  if (!f.is_signed) return std::ldexp(1.0, exponent - f.bias);
  const double scaled = exponent == 0 ? std::ldexp(fraction, 1 - f.bias - f.mantissa)
                                      : std::ldexp(fraction + (1U << f.mantissa), exponent - f.bias - f.mantissa);
  return sign * scaled;
}

// Returns the code nearest to |value|; of two equally near codes, the even one. From half a step above the largest
// finite value on, the result is infinity, NaN or the largest value.
std::uint8_t float_bits(const Format& f, double value) {
  const unsigned codes = 1U << (f.is_signed ? f.bits - 1 : f.bits);
  const unsigned sign = f.is_signed && std::signbit(value) ? codes : 0;
  unsigned nan = codes - 1;
  if (f.specials == Specials::kIeee) nan = codes - (1U << f.mantissa) + (1U << (f.mantissa - 1));
  if (!f.is_signed) {  // powers of two: no zero, no negative values; ties round up
    if (!(value > 0) || std::isinf(value)) return static_cast<std::uint8_t>(nan);
    int exponent = 0;
    const double half = std::frexp(value, &exponent);  // in [0.5, 1)
    const int code = exponent - 1 + (half >= 0.75 ? 1 : 0) + f.bias;
    return static_cast<std::uint8_t>(std::clamp(code, 0, static_cast<int>(nan)));
  }
  if (f.specials == Specials::kUnsigned)
    return std::isnan(value) ? static_cast<std::uint8_t>(codes) : [&] {
      const Format plain{f.dtype, f.bits, f.mantissa, f.bias, Specials::kNone, true};
      const double most = float_value(plain, codes - 1);
      const double step = most - float_value(plain, codes - 2);
      if (std::fabs(value) >= most + step / 2) return static_cast<std::uint8_t>(codes);
      const std::uint8_t bits = float_bits(plain, value);
      return (bits & (codes - 1)) == 0 ? std::uint8_t{0} : bits;  // there is no -0
    }();
  if (std::isnan(value)) return static_cast<std::uint8_t>(f.specials == Specials::kNone ? codes : sign | nan);
  unsigned largest = 0;
  for (unsigned code = 0; code < codes; ++code)
    if (std::isfinite(float_value(f, code))) largest = code;
  const double magnitude = std::fabs(value);
  const double most = float_value(f, largest);
  const double beyond = most + (most - float_value(f, largest - 1)) / 2;
  if (magnitude > beyond || (magnitude == beyond && largest % 2 == 1)) {
    if (f.specials == Specials::kIeee) return static_cast<std::uint8_t>(sign | (largest + 1));
    return static_cast<std::uint8_t>(sign | (f.specials == Specials::kNone ? largest : nan));
  }
  unsigned best = 0;
  for (unsigned code = 1; code <= largest; ++code) {
    const double here = std::fabs(float_value(f, code) - magnitude);
    const double there = std::fabs(float_value(f, best) - magnitude);
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(sign | best);
}

}  // namespace

double narrow_value(DType dtype, std::uint8_t bits) {
  if (!is_narrow_integer(dtype)) return float_value(format_of(dtype), bits);
  const int width = integer_width(dtype);
  const int value = bits & ((1 << width) - 1);
  return has_sign(dtype) && value >= 1 << (width - 1) ? value - (1 << width) : value;
}

std::uint8_t narrow_bits(DType dtype, double value) {
  if (!is_narrow_integer(dtype)) return float_bits(format_of(dtype), value);
  if (std::isnan(value)) return 0;
  const int width = integer_width(dtype);
  const auto integer = static_cast<std::int64_t>(std::fmax(std::fmin(value, 1e18), -1e18));
  return static_cast<std::uint8_t>(integer & ((1 << width) - 1));
}

}  // namespace tessera

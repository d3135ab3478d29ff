// SPDX-License-Identifier: Apache-2.0
// Scalar functions in branch-free form, which the compiler vectorizes. Only for the sources of a kernel set: all
// functions are internal to their file.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/tensor/dtype.h"
#include "tessera/tensor/float16_bits.h"

#define TESSERA_INLINE static inline __attribute__((always_inline))

namespace tessera::kernels::TESSERA_ISA {
namespace {

template <class To, class From>
TESSERA_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// ---- f32 <-> 16 bits ----------------------------------------------------------------------------------------------------

TESSERA_INLINE float widen(BFloat16 x) { return bits_as<float>(static_cast<std::uint32_t>(x.bits) << 16); }
TESSERA_INLINE BFloat16 narrow_bf16(float x) {
  const auto word = bits_as<std::uint32_t>(x);
  const std::uint32_t rounded = (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (word >> 16) | 0x40U;
  BFloat16 out;
  out.bits = static_cast<std::uint16_t>((word & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
  return out;
}

// ---- f32 ------------------------------------------------------------------------------------------------------------------

// The result of an invalid operation, as in the processor's arithmetic and the C library. A NaN operand keeps its sign.
#if defined(__x86_64__) || defined(__i386__)
constexpr float kInvalid = -__builtin_nanf("");
#else
constexpr float kInvalid = __builtin_nanf("");
#endif

// 2^n for n within [-126, 127].
TESSERA_INLINE float power_of_two(std::int32_t n) { return bits_as<float>((n + 127) << 23); }

TESSERA_INLINE float exp_f32(float x) {
  float c = x > 89.0f ? 89.0f : x;  // keeps NaN
  c = c < -104.0f ? -104.0f : c;
  const float shifted = c * 1.44269504088896341f + 12582912.0f;  // rounds to an integer
  const float n = shifted - 12582912.0f;
  const float r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // Multiply by two factors, so that the largest and the denormal results are also correct.
  const auto exponent =
      static_cast<std::int32_t>(bits_as<std::uint32_t>(shifted) - bits_as<std::uint32_t>(12582912.0f));
  const std::int32_t half = exponent >> 1;
  const float y = p * power_of_two(half) * power_of_two(exponent - half);
  return x != x ? x : y;
}

TESSERA_INLINE float log_f32(float x) {
  const bool is_small = x < 1.17549435e-38f;  // denormal, zero or negative
  const float scaled = is_small ? x * 16777216.0f : x;
  const auto word = bits_as<std::int32_t>(scaled);
  std::int32_t exponent = ((word >> 23) & 0xff) - 126 - (is_small ? 24 : 0);
  auto m = bits_as<float>((word & 0x007fffff) | 0x3f000000);  // in [0.5, 1)
  const bool below = m < 0.707106781186547524f;
  exponent = below ? exponent - 1 : exponent;
  m = (below ? m + m : m) - 1.0f;
  const float z = m * m;
  float y = 7.0376836292e-2f;
  y = y * m - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  const auto e = static_cast<float>(exponent);
  y = y * m * z + e * -2.12194440e-4f - 0.5f * z;
  float result = m + y + e * 0.693359375f;
  const float infinity = __builtin_inff();
  result = x == infinity ? infinity : result;
  result = x == 0.0f ? -infinity : result;
  return x >= 0.0f ? result : (x != x ? x : kInvalid);
}

// The rational approximations of Eigen's generic_fast_tanh_float and generic_fast_erf_float.
TESSERA_INLINE float tanh_f32(float x) {
  float c = x > 7.90531110763549805f ? 7.90531110763549805f : x;
  c = c < -7.90531110763549805f ? -7.90531110763549805f : c;
  const float z = c * c;
  float p = -2.76076847742355e-16f;
  p = p * z + 2.00018790482477e-13f;
  p = p * z - 8.60467152213735e-11f;
  p = p * z + 5.12229709037114e-08f;
  p = p * z + 1.48572235717979e-05f;
  p = p * z + 6.37261928875436e-04f;
  p = p * z + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * z + 1.18534705686654e-04f;
  q = q * z + 2.26843463243900e-03f;
  q = q * z + 4.89352518554385e-03f;
  const float y = c * p / q;
  const float size = x < 0.0f ? -x : x;
  return size < 0.0004f ? x : y;
}

TESSERA_INLINE float erf_f32(float x) {
  float c = x > 4.0f ? 4.0f : x;
  c = c < -4.0f ? -4.0f : c;
  const float z = c * c;
  float p = -2.72614225801306e-10f;
  p = p * z + 2.77068142495902e-08f;
  p = p * z - 2.10102402082508e-06f;
  p = p * z - 5.69250639462346e-05f;
  p = p * z - 7.34990630326855e-04f;
  p = p * z - 2.95459980854025e-03f;
  p = p * z - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * z - 2.13374055278905e-04f;
  q = q * z - 1.68282697438203e-03f;
  q = q * z - 7.37332916720468e-03f;
  q = q * z - 1.42647390514189e-02f;
  return c * p / q;
}

// ---- the same names for float and double ------------------------------------------------------------------------------------

#define TESSERA_LIBM(name)                                                   \
  TESSERA_INLINE float name##_of(float x) { return __builtin_##name##f(x); } \
  TESSERA_INLINE double name##_of(double x) { return __builtin_##name(x); }
TESSERA_LIBM(expm1)
TESSERA_LIBM(log1p)
TESSERA_LIBM(sqrt)
TESSERA_LIBM(cbrt)
TESSERA_LIBM(tan)
TESSERA_LIBM(sin)
TESSERA_LIBM(cos)
TESSERA_LIBM(floor)
TESSERA_LIBM(ceil)
TESSERA_LIBM(rint)
TESSERA_LIBM(round)
TESSERA_LIBM(fabs)
#undef TESSERA_LIBM
// NaN if either operand is NaN. +0 is larger than -0: the bits decide between values that differ only in the sign.
#define TESSERA_EXTREMUM(name, before, meet)                                       \
  template <class C>                                                               \
  TESSERA_INLINE C name(C a, C b) {                                                \
    using Bits = std::conditional_t<sizeof(C) == 4, std::uint32_t, std::uint64_t>; \
    const C equal = bits_as<C>(bits_as<Bits>(a) meet bits_as<Bits>(b));            \
    const C ordered = a before b ? a : (a == b ? equal : b);                       \
    return a != a ? a : (b != b ? b : ordered);                                    \
  }
TESSERA_EXTREMUM(larger_of, >, &)
TESSERA_EXTREMUM(smaller_of, <, |)
#undef TESSERA_EXTREMUM

TESSERA_INLINE float exp_of(float x) { return exp_f32(x); }
TESSERA_INLINE double exp_of(double x) { return __builtin_exp(x); }
TESSERA_INLINE float log_of(float x) { return log_f32(x); }
TESSERA_INLINE double log_of(double x) { return __builtin_log(x); }
TESSERA_INLINE float tanh_of(float x) { return tanh_f32(x); }
TESSERA_INLINE double tanh_of(double x) { return __builtin_tanh(x); }
TESSERA_INLINE float erf_of(float x) { return erf_f32(x); }
TESSERA_INLINE double erf_of(double x) { return __builtin_erf(x); }
TESSERA_INLINE float pow_of(float a, float b) { return __builtin_powf(a, b); }
TESSERA_INLINE double pow_of(double a, double b) { return __builtin_pow(a, b); }
TESSERA_INLINE float fmod_of(float a, float b) { return __builtin_fmodf(a, b); }
TESSERA_INLINE double fmod_of(double a, double b) { return __builtin_fmod(a, b); }
TESSERA_INLINE float atan2_of(float a, float b) { return __builtin_atan2f(a, b); }
TESSERA_INLINE double atan2_of(double a, double b) { return __builtin_atan2(a, b); }

// ---- loads and stores ---------------------------------------------------------------------------------------------------------

/// The type in which an element type is computed.
template <class T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<BFloat16> {
  using type = float;
};
template <>
struct ComputeOf<Float16> {
  using type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

template <class T>
TESSERA_INLINE Compute<T> load(T x) {
  return x;
}
TESSERA_INLINE float load(BFloat16 x) { return widen(x); }
TESSERA_INLINE float load(Float16 x) { return tessera::detail::float_of_f16(x.bits); }
template <class T>
struct Storer {
  TESSERA_INLINE T store(T x) { return x; }
};
template <>
struct Storer<BFloat16> {
  TESSERA_INLINE BFloat16 store(float x) { return narrow_bf16(x); }
};
template <>
struct Storer<Float16> {
  TESSERA_INLINE Float16 store(float x) {
    Float16 out;
    out.bits = tessera::detail::f16_of_float(x);
    return out;
  }
};

template <class T>
inline constexpr bool kIsFloatingClass = is_float(kDTypeOf<T>);
template <class T>
struct UnsignedOf;
template <>
struct UnsignedOf<std::int8_t> {
  using type = std::uint8_t;
};
template <>
struct UnsignedOf<std::int16_t> {
  using type = std::uint16_t;
};
template <>
struct UnsignedOf<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct UnsignedOf<std::int64_t> {
  using type = std::uint64_t;
};
template <>
struct UnsignedOf<std::uint8_t> {
  using type = std::uint8_t;
};
template <>
struct UnsignedOf<std::uint16_t> {
  using type = std::uint16_t;
};
template <>
struct UnsignedOf<std::uint32_t> {
  using type = std::uint32_t;
};
template <>
struct UnsignedOf<std::uint64_t> {
  using type = std::uint64_t;
};

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA

// SPDX-License-Identifier: Apache-2.0
// Element types with HLO's names: f32, bf16, s64, pred …
#pragma once

#include <bit>
#include <complex>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tessera {

/// The element types. The order is used by is_float() and the other predicates below.
enum class DType : std::uint8_t {
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,  // the last of kDTypeCount types that have kernels
  kC64,
  kC128,  // pairs of f32, of f64
  // Narrow types. Each element takes one byte. Arithmetic on them is slow, because they have no kernels.
  kS1,
  kS2,
  kS4,
  kU1,
  kU2,
  kU4,
  kF4E2M1FN,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3B11FNUZ,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU
};
/// Short names of the types that models use: `zeros({2, 3}, kF64)`.
inline constexpr DType kBool = DType::kPred;
inline constexpr DType kS8 = DType::kS8;
inline constexpr DType kS16 = DType::kS16;
inline constexpr DType kS32 = DType::kS32;
inline constexpr DType kS64 = DType::kS64;
inline constexpr DType kU8 = DType::kU8;
inline constexpr DType kU16 = DType::kU16;
inline constexpr DType kU32 = DType::kU32;
inline constexpr DType kU64 = DType::kU64;
inline constexpr DType kF16 = DType::kF16;
inline constexpr DType kBF16 = DType::kBF16;
inline constexpr DType kF32 = DType::kF32;
inline constexpr DType kF64 = DType::kF64;
/// The number of types that visit_dtype() accepts: all except the complex and the narrow ones.
inline constexpr int kDTypeCount = 13;
using Complex64 = std::complex<float>;
using Complex128 = std::complex<double>;

/// bfloat16: 16 bits with the exponent of f32. Arithmetic is in f32. Conversion rounds to nearest even and keeps NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(is_nan ? (word >> 16) | 0x40U : (word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  explicit BFloat16(double value);  // rounds once
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

/// IEEE binary16.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) : Float16(static_cast<double>(value)) {}
  explicit Float16(double value);  // rounds once
  explicit operator float() const;
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

/// The name in HLO: `f32`.
std::string_view dtype_name(DType dtype);
/// Reads the name of a type. The error names the nearest known type.
DType dtype_from_name(std::string_view name);
/// True if dtype_from_name() accepts the name.
bool is_dtype_name(std::string_view name);
/// Bytes of one element; pred has one.
std::int64_t dtype_size(DType dtype);

/// The classes of element types. Narrow floats and integers belong only to is_narrow().
constexpr bool is_float(DType t) { return t >= DType::kF16 && t <= DType::kF64; }
constexpr bool is_complex(DType t) { return t == DType::kC64 || t == DType::kC128; }
constexpr bool is_narrow(DType t) { return t >= DType::kS1; }
/// narrow_value() returns the value of an element of a narrow type. narrow_bits() returns the element that is nearest
/// to a value. Ties round to even; integers wrap around.
double narrow_value(DType dtype, std::uint8_t bits);
std::uint8_t narrow_bits(DType dtype, double value);
/// real_dtype() returns the type of the parts of a complex type. complex_dtype() returns the complex type with parts of
/// type f32 or f64.
constexpr DType real_dtype(DType t) { return t == DType::kC64 ? DType::kF32 : t == DType::kC128 ? DType::kF64 : t; }
constexpr DType complex_dtype(DType t) { return t == DType::kF64 ? DType::kC128 : DType::kC64; }
constexpr bool is_signed_int(DType t) { return t >= DType::kS8 && t <= DType::kS64; }
constexpr bool is_unsigned_int(DType t) { return t >= DType::kU8 && t <= DType::kU64; }
constexpr bool is_integer(DType t) { return is_signed_int(t) || is_unsigned_int(t); }

/// The C++ type that stores an element: bool, std::int8_t … BFloat16, float, double.
template <class T>
struct DTypeOf;
#define TESSERA_DTYPE_OF(CPP, TAG)             \
  template <>                                  \
  struct DTypeOf<CPP> {                        \
    static constexpr DType value = DType::TAG; \
  }
TESSERA_DTYPE_OF(bool, kPred);
TESSERA_DTYPE_OF(std::int8_t, kS8);
TESSERA_DTYPE_OF(std::int16_t, kS16);
TESSERA_DTYPE_OF(std::int32_t, kS32);
TESSERA_DTYPE_OF(std::int64_t, kS64);
TESSERA_DTYPE_OF(std::uint8_t, kU8);
TESSERA_DTYPE_OF(std::uint16_t, kU16);
TESSERA_DTYPE_OF(std::uint32_t, kU32);
TESSERA_DTYPE_OF(std::uint64_t, kU64);
TESSERA_DTYPE_OF(Float16, kF16);
TESSERA_DTYPE_OF(BFloat16, kBF16);
TESSERA_DTYPE_OF(float, kF32);
TESSERA_DTYPE_OF(double, kF64);
TESSERA_DTYPE_OF(Complex64, kC64);
TESSERA_DTYPE_OF(Complex128, kC128);
#undef TESSERA_DTYPE_OF
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

/// Throws the Error that the op does not accept elements of this type.
[[noreturn]] void fail_dtype(DType dtype);

/// Calls `f.operator()<T>()` with the C++ type of `dtype`; Error for a complex or narrow type.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kPred: return f.template operator()<bool>();
    case DType::kS8: return f.template operator()<std::int8_t>();
    case DType::kS16: return f.template operator()<std::int16_t>();
    case DType::kS32: return f.template operator()<std::int32_t>();
    case DType::kS64: return f.template operator()<std::int64_t>();
    case DType::kU8: return f.template operator()<std::uint8_t>();
    case DType::kU16: return f.template operator()<std::uint16_t>();
    case DType::kU32: return f.template operator()<std::uint32_t>();
    case DType::kU64: return f.template operator()<std::uint64_t>();
    case DType::kF16: return f.template operator()<Float16>();
    case DType::kBF16: return f.template operator()<BFloat16>();
    case DType::kF32: return f.template operator()<float>();
    case DType::kF64: break;
    default: fail_dtype(dtype);
  }
  return f.template operator()<double>();
}

/// The same, with complex types.
template <class F>
decltype(auto) visit_any_dtype(DType dtype, F&& f) {
  if (dtype == DType::kC64) return f.template operator()<Complex64>();
  if (dtype == DType::kC128) return f.template operator()<Complex128>();
  return visit_dtype(dtype, f);
}

}  // namespace tessera

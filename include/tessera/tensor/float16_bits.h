// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the bits of IEEE binary16 without branches, so that loops over them become vector code.
// They are always inlined, because kernels compile them for several instruction sets.
#pragma once

#include <cstdint>

namespace tessera::detail {

/// Returns the value of a binary16. All NaN become the quiet NaN of their sign.
[[gnu::always_inline]] inline float float_of_f16(std::uint16_t bits) {
  const std::uint32_t exponent = bits & 0x7c00U;
  const std::uint32_t mantissa = bits & 0x3ffU;
  const auto subnormal = __builtin_bit_cast(std::uint32_t, static_cast<float>(static_cast<int>(mantissa)) * 0x1p-24F);
  const std::uint32_t normal = ((bits & 0x7fffU) << 13) + (112U << 23);  // the biases are 127 and 15
  const std::uint32_t special = mantissa == 0 ? 0x7f800000U : 0x7fc00000U;
  const std::uint32_t magnitude = exponent == 0x7c00U ? special : exponent == 0 ? subnormal : normal;
  return __builtin_bit_cast(float, ((bits & 0x8000U) << 16) | magnitude);
}

/// Returns the binary16 that is nearest to a value; ties round to even. NaN becomes the quiet NaN of its sign.
[[gnu::always_inline]] inline std::uint16_t f16_of_float(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  constexpr std::uint32_t kRoundsToInfinity = 0x477ff000U;  // 65520
  constexpr std::uint32_t kLeastNormal = 113U << 23;        // 2^-14
  const auto word = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rest = word & 0x7fffffffU;
  // 0.5 has the unit in the last place of subnormal numbers, 2^-24, so the sum is rounded to it.
  const auto sum = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, rest) + 0.5F);
  const std::uint32_t subnormal = sum - 0x3f000000U;
  const std::uint32_t normal = (rest - (112U << 23) + 0xfffU + ((rest >> 13) & 1U)) >> 13;
  const std::uint32_t finite = rest < kLeastNormal ? subnormal : normal;
  const std::uint32_t magnitude = rest > kInfinity ? 0x7e00U : rest >= kRoundsToInfinity ? 0x7c00U : finite;
  return static_cast<std::uint16_t>(((word >> 16) & 0x8000U) | magnitude);
}

}  // namespace tessera::detail

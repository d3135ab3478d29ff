// SPDX-License-Identifier: Apache-2.0
// Conversions of f16, for all its values and the boundaries between them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/tensor/dtype.h"

namespace tessera {
namespace {

constexpr std::uint16_t kInfinite = 0x7c00;

Float16 of_bits(unsigned bits) {
  Float16 out;
  out.bits = static_cast<std::uint16_t>(bits);
  return out;
}

// By the definition in IEEE 754.
double value_of(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10);
  const double mantissa = bits & 0x3ffU;
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
}

TEST(Float16, AllFiniteValuesAreExact) {
  for (unsigned bits = 0; bits < kInfinite; ++bits) {
    const double value = value_of(bits);
    ASSERT_EQ(static_cast<double>(of_bits(bits)), value) << bits;
    ASSERT_EQ(static_cast<double>(of_bits(bits | 0x8000U)), -value) << bits;
    ASSERT_EQ(Float16(value).bits, bits);
    ASSERT_EQ(Float16(static_cast<float>(-value)).bits, bits | 0x8000U);
  }
}

TEST(Float16, RoundsToNearestAndTiesToEven) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (unsigned bits = 0; bits + 1 < kInfinite; ++bits) {
    const auto middle = static_cast<float>((value_of(bits) + value_of(bits + 1)) / 2);
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(Float16(middle).bits, even) << middle;
    ASSERT_EQ(Float16(std::nextafterf(middle, 0)).bits, bits) << middle;
    ASSERT_EQ(Float16(std::nextafterf(middle, kMost)).bits, bits + 1) << middle;
    // A double between two floats is rounded once.
    ASSERT_EQ(Float16(std::nextafter(static_cast<double>(middle), 0.0)).bits, bits) << middle;
    ASSERT_EQ(Float16(std::nextafter(static_cast<double>(middle), 1e9)).bits, bits + 1) << middle;
  }
}

TEST(Float16, LargeAndSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Float16(65519.996F).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0F).bits, kInfinite);
  EXPECT_EQ(Float16(-1e30).bits, 0xfc00);
  EXPECT_EQ(Float16(-1e300).bits, 0xfc00);
  EXPECT_EQ(Float16(kInf).bits, kInfinite);
  EXPECT_EQ(static_cast<float>(of_bits(0xfc00)), -kInf);
  EXPECT_EQ(Float16(std::nanf("")).bits, 0x7e00);
  EXPECT_TRUE(std::isnan(static_cast<float>(of_bits(0x7c01))));
  EXPECT_TRUE(std::signbit(static_cast<float>(of_bits(0xfe00))));
  EXPECT_EQ(Float16(-0.0F).bits, 0x8000);
  EXPECT_EQ(Float16(1e-30F).bits, 0);
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/run_text.h"

namespace tessera {
namespace {

TEST(IntegerArithmetic, IsDefinedForAllInputs) {
  EXPECT_EQ(run("s32[4] divide(%a, %b)", {"s32[4] {7, -7, 5, -2147483648}", "s32[4] {2, 2, 0, -1}"}),
            "{3, -3, -1, -2147483648}");
  EXPECT_EQ(run("s32[4] remainder(%a, %b)", {"s32[4] {7, -7, 5, -2147483648}", "s32[4] {4, 4, 0, -1}"}),
            "{3, -3, 5, 0}");
  EXPECT_EQ(run("s8[2] divide(%a, %b)", {"s8[2] {-128, 100}", "s8[2] {-1, 0}"}), "{-128, -1}");
  EXPECT_EQ(run("u8[3] divide(%a, %b)", {"u8[3] {200, 7, 255}", "u8[3] {3, 0, 255}"}), "{66, 255, 1}");
  EXPECT_EQ(run("u32[2] remainder(%a, %b)", {"u32[2] {4294967295, 9}", "u32[2] {7, 0}"}), "{3, 9}");
  EXPECT_EQ(run("s64[2] divide(%a, %b)", {"s64[2] {-9223372036854775808, 3}", "s64[2] {-1, 0}"}),
            "{-9223372036854775808, -1}");
}

TEST(IntegerArithmetic, Wraps) {
  EXPECT_EQ(run("s8[3] add(%a, %b)", {"s8[3] {127, -128, 100}", "s8[3] {1, -1, 100}"}), "{-128, 127, -56}");
  EXPECT_EQ(run("u8[2] subtract(%a, %b)", {"u8[2] {0, 5}", "u8[2] {1, 3}"}), "{255, 2}");
  EXPECT_EQ(run("s16[2] multiply(%a, %b)", {"s16[2] {300, -300}", "s16[2] {300, 300}"}), "{24464, -24464}");
  EXPECT_EQ(run("s8[2] negate(%a)", {"s8[2] {-128, 5}"}), "{-128, -5}");
  EXPECT_EQ(run("s8[2] abs(%a)", {"s8[2] {-128, -5}"}), "{-128, 5}");
  EXPECT_EQ(run("u64[1] add(%a, %b)", {"u64[1] {18446744073709551615}", "u64[1] {2}"}), "{1}");
}

TEST(IntegerArithmetic, PowersOfIntegersAreExact) {
  EXPECT_EQ(run("s32[7] power(%a, %b)", {"s32[7] {3, -2, 0, 0, -1, -1, 2}", "s32[7] {4, 5, 0, -1, -3, -2, -1}"}),
            "{81, -32, 1, 0, -1, 1, 0}");
  EXPECT_EQ(run("u8[2] power(%a, %b)", {"u8[2] {3, 2}", "u8[2] {6, 8}"}), "{217, 0}");
}

TEST(Shifts, ByTheWidthOrMoreGiveZerosOrTheSign) {
  const std::string by = "s8[5] {0, 1, 7, 8, -1}";
  EXPECT_EQ(run("s8[5] shift-left(%a, %b)", {"s8[5] {-3, -3, -3, -3, -3}", by}), "{-3, -6, -128, 0, 0}");
  EXPECT_EQ(run("s8[5] shift-right-arithmetic(%a, %b)", {"s8[5] {-100, -100, -100, -100, -100}", by}),
            "{-100, -50, -1, -1, -1}");
  EXPECT_EQ(run("s8[5] shift-right-logical(%a, %b)", {"s8[5] {-100, -100, -100, -100, -100}", by}),
            "{-100, 78, 1, 0, 0}");
  EXPECT_EQ(run("u8[3] shift-right-arithmetic(%a, %b)", {"u8[3] {200, 200, 100}", "u8[3] {1, 9, 1}"}),
            "{228, 255, 50}");
  EXPECT_EQ(run("s64[2] shift-left(%a, %b)", {"s64[2] {1, 1}", "s64[2] {63, 64}"}), "{-9223372036854775808, 0}");
}

TEST(Bits, CountsDependOnTheWidthOfTheType) {
  EXPECT_EQ(run("s8[3] count-leading-zeros(%a)", {"s8[3] {0, 1, -1}"}), "{8, 7, 0}");
  EXPECT_EQ(run("s16[3] popcnt(%a)", {"s16[3] {0, 5, -1}"}), "{0, 2, 16}");
  EXPECT_EQ(run("s32[2] not(%a)", {"s32[2] {0, 5}"}), "{-1, -6}");
  EXPECT_EQ(run("u8[2] not(%a)", {"u8[2] {0, 5}"}), "{255, 250}");
  EXPECT_EQ(run("s32[3] sign(%a)", {"s32[3] {-9, 0, 4}"}), "{-1, 0, 1}");
}

TEST(Pred, AddIsOrAndMultiplyIsAnd) {
  const std::vector<std::string> operands{"pred[4] {false, false, true, true}", "pred[4] {false, true, false, true}"};
  EXPECT_EQ(run("pred[4] add(%a, %b)", operands), "{false, true, true, true}");
  EXPECT_EQ(run("pred[4] multiply(%a, %b)", operands), "{false, false, false, true}");
  EXPECT_EQ(run("pred[4] xor(%a, %b)", operands), "{false, true, true, false}");
  EXPECT_EQ(run("pred[4] maximum(%a, %b)", operands), "{false, true, true, true}");
  EXPECT_EQ(run("pred[4] compare(%a, %b), direction=LT", operands), "{false, true, false, false}");
}

TEST(FloatArithmetic, RoundsOnceToTheElementType) {
  // 0.1f + 0.2f and 1/3 as f32 hardware computes them.
  EXPECT_EQ(run("f32[2] add(%a, %b)", {"f32[2] {0.1, 16777216}", "f32[2] {0.2, 1}"}), "{0.3, 16777216}");
  EXPECT_EQ(run("f32[1] divide(%a, %b)", {"f32[1] {1}", "f32[1] {3}"}), "{0.33333334}");
  // bf16 has 8 significant bits: 257 is between 256 and 258, and ties round to even.
  EXPECT_EQ(run("bf16[2] add(%a, %b)", {"bf16[2] {256, 256}", "bf16[2] {1, 3}"}), "{256, 260}");
  EXPECT_EQ(run("f16[2] multiply(%a, %b)", {"f16[2] {300, 0.1}", "f16[2] {300, 3}"}), "{inf, 0.2998047}");
}

TEST(FloatArithmetic, ExtremaPropagateNan) {
  EXPECT_EQ(run("f32[3] maximum(%a, %b)", {"f32[3] {nan, 1, 2}", "f32[3] {1, nan, 3}"}), "{nan, nan, 3}");
  EXPECT_EQ(run("f32[3] minimum(%a, %b)", {"f32[3] {nan, 1, 2}", "f32[3] {1, nan, 3}"}), "{nan, nan, 2}");
  EXPECT_EQ(run("f32[3] clamp(%a, %b, %c)", {"f32[] 0", "f32[3] {nan, -1, 9}", "f32[] 4"}), "{nan, 0, 4}");
}

TEST(FloatArithmetic, ClampIsMinOfMaxEvenIfTheBoundsCross) {
  EXPECT_EQ(run("s32[3] clamp(%a, %b, %c)", {"s32[] 5", "s32[3] {0, 4, 9}", "s32[] 3"}), "{3, 3, 3}");
}

TEST(FloatArithmetic, SpecialValues) {
  EXPECT_EQ(run("f32[4] sign(%a)", {"f32[4] {-0.5, -0, nan, inf}"}), "{-1, -0, nan, 1}");
  EXPECT_EQ(run("f32[4] round-nearest-even(%a)", {"f32[4] {0.5, 1.5, -2.5, 2.6}"}), "{0, 2, -2, 3}");
  EXPECT_EQ(run("f32[4] round-nearest-afz(%a)", {"f32[4] {0.5, 1.5, -2.5, 2.4}"}), "{1, 2, -3, 2}");
  EXPECT_EQ(run("pred[4] is-finite(%a)", {"f32[4] {1, inf, -inf, nan}"}), "{true, false, false, false}");
  EXPECT_EQ(run("f32[3] remainder(%a, %b)", {"f32[3] {5.5, -5.5, 1}", "f32[3] {2, 2, 0}"}), "{1.5, -1.5, -nan}");
  EXPECT_EQ(run("f32[3] logistic(%a)", {"f32[3] {0, 200, -200}"}), "{0.5, 1, 0}");
}

TEST(Compare, TotalOrderPutsNansAtTheEndsAndDistinguishesZeros) {
  const std::vector<std::string> operands{"f32[4] {-0, nan, 1, nan}", "f32[4] {0, inf, nan, nan}"};
  EXPECT_EQ(run("pred[4] compare(%a, %b), direction=LT", operands), "{false, false, false, false}");
  EXPECT_EQ(run("pred[4] compare(%a, %b), direction=LT, type=TOTALORDER", operands), "{true, false, true, false}");
  EXPECT_EQ(run("pred[4] compare(%a, %b), direction=GE, type=TOTALORDER", operands), "{false, true, false, true}");
  EXPECT_EQ(run("pred[4] compare(%a, %b), direction=NE", operands), "{false, true, true, true}");
}

TEST(Compare, UnsignedNumbersCompareAsUnsigned) {
  EXPECT_EQ(run("pred[2] compare(%a, %b), direction=GT", {"u8[2] {200, 3}", "u8[2] {100, 200}"}), "{true, false}");
  EXPECT_EQ(run("pred[1] compare(%a, %b), direction=GT", {"u64[1] {18446744073709551615}", "u64[1] {1}"}), "{true}");
}

TEST(Convert, FloatToIntegerTruncatesSaturatesAndMakesNanZero) {
  const std::string values = "f32[7] {1.9, -1.9, 300, -300, nan, inf, -inf}";
  EXPECT_EQ(run("s8[7] convert(%a)", {values}), "{1, -1, 127, -128, 0, 127, -128}");
  EXPECT_EQ(run("u8[7] convert(%a)", {values}), "{1, 0, 255, 0, 0, 255, 0}");
  EXPECT_EQ(run("s64[2] convert(%a)", {"f64[2] {1e19, -1e19}"}), "{9223372036854775807, -9223372036854775808}");
  EXPECT_EQ(run("u64[2] convert(%a)", {"f64[2] {1e20, 1.5e19}"}), "{18446744073709551615, 15000000000000000000}");
  EXPECT_EQ(run("pred[4] convert(%a)", {"f32[4] {0, -0, 0.1, nan}"}), "{false, false, true, true}");
}

TEST(Convert, IntegersWrapAndRoundOnce) {
  EXPECT_EQ(run("s8[2] convert(%a)", {"s32[2] {200, -300}"}), "{-56, -44}");
  EXPECT_EQ(run("u32[1] convert(%a)", {"s32[1] {-1}"}), "{4294967295}");
  EXPECT_EQ(run("f32[2] convert(%a)", {"s32[2] {16777217, 16777219}"}), "{16777216, 16777220}");
  // 2^60 + 2^36 + 1 is just above the middle between two f32 numbers; through double it would look like a tie.
  EXPECT_EQ(run("f32[1] convert(%a)", {"s64[1] {1152921573326323713}"}),
            run("f32[1] convert(%a)", {"f64[1] {1152921642045800448}"}));
  EXPECT_EQ(run("f32[2] convert(%a)", {"pred[2] {true, false}"}), "{1, 0}");
}

TEST(BitcastConvert, KeepsBytesAndAddsOrTakesTheMinorDim) {
  EXPECT_EQ(run("u32[2] bitcast-convert(%a)", {"f32[2] {1, -2}"}), "{1065353216, 3221225472}");
  EXPECT_EQ(run("u8[2,4] bitcast-convert(%a)", {"u32[2] {1, 515}"}), "{{1, 0, 0, 0}, {3, 2, 0, 0}}");
  EXPECT_EQ(run("u32[2] bitcast-convert(%a)", {"u8[2,4] {{1, 0, 0, 0}, {3, 2, 0, 0}}"}), "{1, 515}");
}

TEST(Select, TakesAScalarPredicateOrOnePerElement) {
  EXPECT_EQ(run("s32[2] select(%a, %b, %c)", {"pred[2] {true, false}", "s32[2] {1, 2}", "s32[2] {3, 4}"}), "{1, 4}");
  EXPECT_EQ(run("s32[2] select(%a, %b, %c)", {"pred[] false", "s32[2] {1, 2}", "s32[2] {3, 4}"}), "{3, 4}");
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Corner cases that the comparison with XLA on unusual inputs revealed (tests/oracles/compare_ops_with_xla.py).
#include <gtest/gtest.h>

#include "run_text.h"

namespace tessera {
namespace {

TEST(SignedZeros, AreOrderedByMaximumAndMinimum) {
  for (const std::string type : {"f32", "bf16", "f64"}) {
    const std::vector<std::string> xy = {type + "[2] {-0, 0}", type + "[2] {0, -0}"};
    EXPECT_EQ(run(type + "[2] maximum(%a, %b)", xy), "{0, 0}");
    EXPECT_EQ(run(type + "[2] minimum(%a, %b)", xy), "{-0, -0}");
  }
  EXPECT_EQ(run("f32[] clamp(%a, %b, %c)", {"f32[] 0", "f32[] 0", "f32[] -0"}), "-0");
  EXPECT_EQ(run("f32[] reduce(%a, %b), dimensions={0}, to_apply=m", {"f32[3] {-0, 0, -0}", "f32[] -inf"},
                "m { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] maximum(x, y) }"),
            "0");
}

TEST(NarrowIntegers, WrapAtTheirWidth) {
  const std::vector<std::string> s4 = {"s4[4] {7, -8, 3, -8}", "s4[4] {1, -1, 0, -1}"};
  EXPECT_EQ(run("s4[4] add(%a, %b)", s4), "{-8, 7, 3, 7}");
  EXPECT_EQ(run("s4[4] divide(%a, %b)", s4), "{7, -8, -1, -8}");
  EXPECT_EQ(run("s4[4] shift-right-logical(%a, %b)", {s4[0], "s4[4] {1, 1, 0, 4}"}), "{3, 4, 3, 0}");
  EXPECT_EQ(run("u2[4] subtract(%a, %b)", {"u2[4] {0, 1, 2, 3}", "u2[4] {1, 3, 2, 0}"}), "{3, 2, 0, 3}");
  EXPECT_EQ(run("pred[4] compare(%a, %b), direction=LT", s4), "{false, true, false, true}");
  EXPECT_EQ(run("s4[10] iota(), iota_dimension=0", {}), "{0, 1, 2, 3, 4, 5, 6, 7, -8, -7}");
  EXPECT_EQ(run("s32[] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}", s4), "23");
  EXPECT_EQ(run("s4[] reduce(%a, %b), dimensions={0}, to_apply=m", {s4[0], "s4[] 0"},
                "m { x = s4[] parameter(0) y = s4[] parameter(1) ROOT z = s4[] add(x, y) }"),
            "-6");
}

TEST(NarrowIntegers, FloatsSaturateAndIntegersWrapWhenConverted) {
  EXPECT_EQ(run("s4[5] convert(%a)", {"f32[5] {20, -20, 2.9, nan, -inf}"}), "{7, -8, 2, 0, -8}");
  EXPECT_EQ(run("u4[3] convert(%a)", {"f32[3] {-1, 15.5, 16}"}), "{0, 15, 15}");
  EXPECT_EQ(run("s4[2] convert(%a)", {"s64[2] {9223372036854775807, 23}"}), "{-1, 7}");
}

TEST(NarrowFloats, ComputeInF32AndRoundOnce) {
  EXPECT_EQ(run("f8e4m3fn[2] add(%a, %b)", {"f8e4m3fn[2] {1.5, 240}", "f8e4m3fn[2] {0.25, 16}"}), "{1.75, 256}");
  EXPECT_EQ(run("f32[] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                {"f8e4m3fn[2] {1.5, 2}", "f8e5m2[2] {4, -0.5}"}),
            "5");
  EXPECT_EQ(run("c64[2] convert(%a)", {"f8e4m3fn[2] {1.5, -2}"}), "{(1.5, 0), (-2, 0)}");
  EXPECT_EQ(run("c128[2] convert(%a)", {"s4[2] {-8, 7}"}), "{(-8, 0), (7, 0)}");
  EXPECT_EQ(run("f8e8m0fnu[5] convert(%a)", {"f32[5] {1.5, 3, 2.9, 0, -1}"}), "{2, 4, 2, nan, nan}");
}

TEST(BitcastConvert, SplitsBytesIntoPartsStartingWithTheLowest) {
  EXPECT_EQ(run("s4[2,2] bitcast-convert(%a)", {"s8[2] {39, -1}"}), "{{7, 2}, {-1, -1}}");
  EXPECT_EQ(run("s8[2] bitcast-convert(%a)", {"s4[2,2] {{7, 2}, {-1, -1}}"}), "{39, -1}");
  EXPECT_EQ(run("u2[1,4] bitcast-convert(%a)", {"u8[1] {228}"}), "{{0, 1, 2, 3}}");
}

TEST(ReducePrecision, TheLargestNumbersBecomeInfinite) {
  EXPECT_EQ(
      run("f64[2] reduce-precision(%a), exponent_bits=2, mantissa_bits=1", {"f64[2] {1.7976931348623157e308, 1}"}),
      "{inf, 1}");
}

TEST(Dot, MayMixElementTypesIfTheResultIsDeclared) {
  const std::string dims = "dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
  EXPECT_EQ(run("f32[] " + dims, {"bf16[2] {1.5, 2}", "f32[2] {4, -0.5}"}), "5");
  EXPECT_NE(error_of(dims, {"bf16[2] {1.5, 2}", "f32[2] {4, -0.5}"}).find("or declare the result's"),
            std::string::npos);
}

TEST(ScaledDot, ScalesBlocksOfTheContractedDim) {
  // [1*2, 2*2, 3*10, 4*10] . [1, 1, 1, 1*100]
  EXPECT_EQ(
      run("f32[1,1] scaled-dot(%a, %b, %c, %d), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
          {"f32[1,4] {{1, 2, 3, 4}}", "f32[1,4] {{1, 1, 1, 1}}", "f32[1,2] {{2, 10}}", "f32[1,4] {{1, 1, 1, 100}}"}),
      "{{4036}}");
  EXPECT_NE(error_of("f32[1,1] scaled-dot(%a, %b, %c, %d), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
                     {"f32[1,4] {{1, 2, 3, 4}}", "f32[1,4] {{1, 1, 1, 1}}", "f32[1,3] {{2, 10, 1}}", "f32[] 1"})
                .find("must be a scalar, or divide its dims into blocks"),
            std::string::npos);
}

TEST(Atan2, OfRealsGivenAsComplexIsTheSame) {
  const std::string out = run("f32[] real(%c)", {"c64[] (1, 0)", "c64[] (-1, 0)", "c64[] (0, 0)"});
  EXPECT_EQ(out, "0");
  EXPECT_EQ(run("c64[] atan2(%a, %b)", {"c64[] (0, 0)", "c64[] (1, 0)"}).substr(0, 2), "(0");
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tessera/base/error.h"
#include "tessera/ir/text.h"

namespace tessera {
namespace {

Type scalar(DType dtype) { return Type::scalar(dtype); }

TEST(LiteralText, EveryFormIsRead) {
  EXPECT_EQ(parse_literal("1.5", scalar(DType::kF32)), Literal::scalar(1.5F));
  EXPECT_EQ(parse_literal("-3", scalar(DType::kF64)), Literal::scalar(-3.0));
  EXPECT_EQ(parse_literal("-0", scalar(DType::kF32)), Literal::scalar(-0.0F));
  EXPECT_EQ(parse_literal("1e-3", scalar(DType::kF32)), Literal::scalar(1e-3F));
  EXPECT_EQ(parse_literal("-inf", scalar(DType::kF32)), Literal::scalar(-INFINITY));
  EXPECT_EQ(parse_literal("true", scalar(DType::kPred)), Literal::scalar(true));
  EXPECT_EQ(parse_literal("0", scalar(DType::kPred)), Literal::scalar(false));
  EXPECT_EQ(parse_literal("18446744073709551615", scalar(DType::kU64)), Literal::scalar(~std::uint64_t{0}));
  EXPECT_EQ(parse_literal("{ { 1, 2, 3 }, { 4, 5, 6 } }", Type::array(DType::kS32, {2, 3})),
            Literal::from<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(parse_literal("{ /*i0=0*/ {1}, /*i0=1*/ {2} }", Type::array(DType::kS8, {2, 1})),
            Literal::from<std::int8_t>({2, 1}, {1, 2}));
  EXPECT_TRUE(parse_literal("{...}", Type::array(DType::kF32, {5})).is_elided());
  EXPECT_EQ(parse_literal("{}", Type::array(DType::kF32, {0, 3})), Literal(Type::array(DType::kF32, {0, 3})));
  EXPECT_EQ(parse_literal("{{}, {}}", Type::array(DType::kF32, {2, 0})), Literal(Type::array(DType::kF32, {2, 0})));
  EXPECT_EQ(
      parse_literal("(1, ({2, 3}))", Type::tuple({scalar(DType::kF32), Type::tuple({Type::array(DType::kS32, {2})})})),
      Literal::tuple({Literal::scalar(1.0F), Literal::tuple({Literal::from<std::int32_t>({2}, {2, 3})})}));
}

TEST(LiteralText, NanKeepsSignAndPayload) {
  const auto bits = [](std::string_view text) {
    return std::bit_cast<std::uint32_t>(parse_literal(text, scalar(DType::kF32)).data<float>()[0]);
  };
  EXPECT_EQ(bits("nan"), 0x7fc00000U);
  EXPECT_EQ(bits("-nan"), 0xffc00000U);
  EXPECT_EQ(bits("-nan(0x1)"), 0xff800001U);
  EXPECT_EQ(Literal::scalar(std::bit_cast<float>(0xff800001U)).str(), "-nan(0x1)");
  EXPECT_THROW(parse_literal("nan(0x800000)", scalar(DType::kF32)), Error);
  EXPECT_THROW(parse_literal("nan(0x0)", scalar(DType::kF32)), Error);
}

TEST(LiteralText, SubnormalsAreReadAndTooLargeNumbersAreAnError) {
  EXPECT_EQ(parse_literal("1e-45", scalar(DType::kF32)), Literal::scalar(std::bit_cast<float>(1U)));
  EXPECT_EQ(parse_literal("1e-400", scalar(DType::kF64)), Literal::scalar(0.0));
  EXPECT_THROW(parse_literal("1e39", scalar(DType::kF32)), Error);
  EXPECT_THROW(parse_literal("1e400", scalar(DType::kF64)), Error);
  EXPECT_THROW(parse_literal("1.5", scalar(DType::kS32)), Error);
  EXPECT_THROW(parse_literal("1 2", scalar(DType::kS32)), Error);
}

TEST(LiteralText, AnyBitsOfAnyTypeReadBackEqual) {
  std::mt19937_64 random(3);
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    Literal literal(Type::array(dtype, {7, 5}));
    for (auto& byte : literal.mutable_bytes())
      byte = static_cast<std::byte>(dtype == DType::kPred ? random() % 2 : random());
    EXPECT_EQ(parse_literal(literal.str(), literal.type()), literal) << dtype_name(dtype) << " " << literal.str();
  }
}

TEST(LiteralText, ASummaryHasTheFirstAndTheLastElementsOfEachDim) {
  const auto counting = [](Dims dims) {
    Literal out(Type::array(DType::kS32, std::move(dims)));
    std::int32_t next = 0;
    for (auto& element : out.mutable_data<std::int32_t>()) element = next++;
    return out;
  };
  EXPECT_EQ(counting({1001}).summary(), "{0,1,2,...,998,999,1000}");
  EXPECT_EQ(counting({2, 1009}).summary(), "{{0,1,2,...,1006,1007,1008}, {1009,1010,1011,...,2015,2016,2017}}");
  EXPECT_EQ(counting({701, 2}).summary(), "{{0,1}, {2,3}, {4,5}, ..., {1396,1397}, {1398,1399}, {1400,1401}}");
  EXPECT_EQ(counting({10, 100}).summary(), counting({10, 100}).str()) << "1,000 elements are printed";
  EXPECT_EQ(counting({7}).summary(), "{0,1,2,3,4,5,6}");
}

TEST(LiteralText, AHugeTypeIsRefusedBeforeAllocation) {
  EXPECT_THROW(parse_literal("{1}", Type::array(DType::kF32, {1'000'000'000'000})), Error);
  EXPECT_TRUE(parse_literal("{...}", Type::array(DType::kF32, {1'000'000'000'000})).is_elided());  // takes no memory
}

}  // namespace
}  // namespace tessera

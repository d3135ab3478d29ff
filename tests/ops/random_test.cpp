// SPDX-License-Identifier: Apache-2.0
// The expected bits of rng-bit-generator are those of XLA's CPU backend (jaxlib 0.10.2) for this state.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tessera/ops/evaluate.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u64 kKey = 0x0123456789ABCDEFULL;
constexpr u64 kCounter = 0xFFFFFFFFFFFFFFFEULL;

template <class F>
Literal evaluated(F&& emit, const std::vector<Literal>& arguments) {
  ProgramBuilder program("test");
  Builder main = program.computation("main");
  std::vector<Value> parameters;
  for (const Literal& argument : arguments)
    parameters.push_back(ops::parameter(main, isize(parameters), argument.type()));
  const Value root = emit(parameters);
  const auto entry = program.add(std::move(main), root);
  return evaluate(program.finish(entry), arguments);
}

Literal draw(RngAlgorithm algorithm, DType dtype, const Dims& dims, std::vector<u64> state = {kKey, kCounter}) {
  const auto count = static_cast<std::int64_t>(state.size());
  return evaluated([&](const auto& p) { return ops::rng_bit_generator(p[0], Type::array(dtype, dims), algorithm); },
                   {Literal::from<u64>({count}, state)});
}

TEST(RngBitGenerator, PhiloxDrawsXlasWords) {
  const Literal out = draw(RngAlgorithm::kPhilox, DType::kU32, {5, 7});
  EXPECT_EQ(out.elements()[0], Literal::from<u64>({2}, {kKey, 7}));
  const auto bits = out.elements()[1].data<u32>();
  const std::vector<u32> first = {0xa485194,  0x41c5f806, 0xd6822fee, 0x3885a3d4, 0x41eb59f3,
                                  0x307385e0, 0x5b8b3389, 0xa262f67c, 0x7006d264};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(bits[i], first[i]) << i;
  EXPECT_EQ(bits[34], 0x5306256bU);
}

TEST(RngBitGenerator, PhiloxDrawsXlasDoubleWordsAndLowBits) {
  const Literal wide = draw(RngAlgorithm::kDefault, DType::kU64, {3, 4});
  EXPECT_EQ(wide.elements()[0], Literal::from<u64>({2}, {kKey, 4}));
  EXPECT_EQ(wide.elements()[1].data<u64>()[0], 0x41c5f8060a485194ULL);
  EXPECT_EQ(wide.elements()[1].data<u64>()[11], 0x7b6b4260082ef1b2ULL);
  EXPECT_EQ(draw(RngAlgorithm::kPhilox, DType::kU16, {5}).elements()[1],
            Literal::from<std::uint16_t>({5}, {0x5194, 0xf806, 0x2fee, 0xa3d4, 0x59f3}));
  EXPECT_EQ(draw(RngAlgorithm::kPhilox, DType::kU32, {}).elements()[1], Literal::scalar<u32>(0xa485194));
}

TEST(RngBitGenerator, PhiloxCarriesIntoTheHighWordOfALongState) {
  const Literal out = draw(RngAlgorithm::kPhilox, DType::kU32, {9}, {kKey, kCounter, 5});
  EXPECT_EQ(out.elements()[0], Literal::from<u64>({3}, {kKey, 1, 6}));
}

TEST(RngBitGenerator, ThreeFryDrawsXlasWordsForAnEvenAndAnOddDim) {
  const Literal odd = draw(RngAlgorithm::kThreeFry, DType::kU32, {5, 7});
  EXPECT_EQ(odd.elements()[0], Literal::from<u64>({2}, {kKey, 0x12}));
  const auto bits = odd.elements()[1].data<u32>();
  const std::vector<u32> first = {0xb0f4215b, 0xe19a60b4, 0xb3d7494,  0xacf8c4dc,
                                  0xaaa4d889, 0x6b35c4f4, 0x75a52907, 0x35d0e5f1};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(bits[i], first[i]) << i;
  EXPECT_EQ(bits[34], 0xa64ff394U);
  const Literal wide = draw(RngAlgorithm::kThreeFry, DType::kU64, {3, 2});
  EXPECT_EQ(wide.elements()[0], Literal::from<u64>({2}, {kKey, 4}));
  EXPECT_EQ(wide.elements()[1].data<u64>()[5], 0x284dbe37c2f19d8ULL);
  EXPECT_EQ(draw(RngAlgorithm::kThreeFry, DType::kU8, {5}).elements()[1],
            Literal::from<std::uint8_t>({5}, {0x5b, 0xb4, 0x94, 0xdc, 0x89}));
}

TEST(RngBitGenerator, ReturnsOnlyTheBitsIfOnlyTheyAreDeclared) {
  const Type state = Type::array(DType::kU64, {2});
  const Type bits = Type::array(DType::kU32, {5, 7});
  const auto drawn = [&](const Type& result) {
    return evaluated(
        [&](const auto& p) {
          return p[0].builder->emit(op_table().get("rng-bit-generator"), {p[0]},
                                    make_attributes(RngBitGeneratorAttributes{RngAlgorithm::kPhilox}),
                                    {.type = result});
        },
        {Literal::from<u64>({2}, {kKey, kCounter})});
  };
  EXPECT_EQ(drawn(bits), drawn(Type::tuple({state, bits})).elements()[1]);
}

// Philox 2x32-10 as Salmon et al. define it.
u32 philox2x32(u32 low, u32 high, u32 key) {
  for (int round = 0; round < 10; ++round) {
    const u64 product = u64{0xD256D193U} * low;
    low = static_cast<u32>(product >> 32) ^ key ^ high;
    high = static_cast<u32>(product);
    key += 0x9E3779B9U;
  }
  return low;
}

TEST(RandomBits, ArePhiloxOfTheGlobalRowMajorIndex) {
  const Literal out = evaluated(
      [](const auto& p) {
        return ops::random_bits(p[0], {3, 1, 5});
      },
      {Literal::from<u32>({2}, {11, 22})});
  for (u32 i = 0; i < 15; ++i) EXPECT_EQ(out.data<u32>()[i], philox2x32(i, 22, 11)) << i;
}

TEST(RandomBits, KnownAnswerOfTheGenerator) {  // from Random123's kat_vectors: philox2x32 10, counter 0 0, key 0
  EXPECT_EQ(philox2x32(0, 0, 0), 0xff1dae59U);
}

TEST(RandomBits, CountBeyond32BitsInTheHighWord) {
  // Too large to evaluate. The program must compute the index in 64 bits.
  ProgramBuilder program("large");
  Builder main = program.computation("main");
  const Value key = ops::parameter(main, 0, Type::array(DType::kU32, {2}));
  const Value bits = ops::random_bits(key, {std::int64_t{1} << 20, (std::int64_t{1} << 12) + 1});
  EXPECT_EQ(bits.type().dtype(), DType::kU32);
  bool wide_iota = false;
  for (const Instruction& instruction : main.computation().instructions)
    wide_iota |= instruction.op->name == "iota" && instruction.type.dtype() == DType::kU64;
  EXPECT_TRUE(wide_iota);
}

TEST(RandomUniform, IsInTheUnitIntervalWithTheRightMoments) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    const Literal out = evaluated(
        [&](const auto& p) {
          return ops::random_uniform(p[0], {64, 128}, dtype);
        },
        {Literal::from<u32>({2}, {1, 2})});
    double sum = 0;
    double squares = 0;
    std::set<double> seen;
    for (std::int64_t i = 0; i < 8192; ++i) {
      const double x = element_as_double(out, i);
      ASSERT_GE(x, 0.0);
      ASSERT_LT(x, 1.0);
      sum += x;
      squares += x * x;
      seen.insert(x);
    }
    EXPECT_NEAR(sum / 8192, 0.5, 0.015) << dtype_name(dtype);
    EXPECT_NEAR(squares / 8192, 1.0 / 3, 0.015) << dtype_name(dtype);
    EXPECT_GT(seen.size(), dtype == DType::kBF16 ? 250U : 1500U);
  }
}

}  // namespace
}  // namespace tessera

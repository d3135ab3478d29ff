// SPDX-License-Identifier: Apache-2.0
// Dots: written in the layout of their consumers, in 16 bits, and added to values in memory; compared with the
// reference evaluation, for each instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/on_each_isa.h"
#include "tessera/base/options.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

using testing::expect_as_reference;
using testing::expect_on_each_isa;
using testing::program_of;
using testing::step_sizes;

TEST(Dots, AreWrittenInTheLayoutOfTheirTranspose) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kS32}) {
    SCOPED_TRACE(dtype_name(dtype));
    // The gradient of a weight: [n, k] transposed to [k, n].
    Program program =
        expect_on_each_isa({Type::array(dtype, {2, 7, 5}), Type::array(dtype, {2, 7, 3})}, [](Builder&, auto& v) {
          const Value d = ops::dot(v[1], v[0], {{}, {0, 1}, {}, {0, 1}});
          const Value turned = ops::transpose(d, {1, 0});
          return ops::add(turned, turned);
        });
    EXPECT_EQ(step_sizes(program), (std::vector<std::size_t>{1, 1}));
    // Moves heads back between time and width.
    program =
        expect_on_each_isa({Type::array(dtype, {2, 3, 5, 4}), Type::array(dtype, {2, 3, 4, 6})}, [](Builder&, auto& v) {
          const Value d = ops::dot(v[0], v[1], {{0, 1}, {3}, {0, 1}, {2}});
          return ops::reshape(ops::transpose(d, {0, 2, 1, 3}), {10, 18});
        });
    EXPECT_EQ(step_sizes(program), std::vector<std::size_t>{1});
    // Free dims that are separated, and inner batch dims.
    expect_on_each_isa({Type::array(dtype, {2, 3, 5}), Type::array(dtype, {4, 2, 5})}, [](Builder&, auto& v) {
      return ops::transpose(ops::dot(v[0], v[1], {{}, {2}, {}, {2}}), {2, 0, 3, 1});
    });
    expect_on_each_isa({Type::array(dtype, {6, 3, 5}), Type::array(dtype, {6, 4, 5})}, [](Builder&, auto& v) {
      return ops::transpose(ops::dot(v[0], v[1], {{0}, {2}, {0}, {2}}), {2, 1, 0});
    });
  }
}

TEST(Dots, OfSixteenBitsAreComputedInF32WithoutNativeInstructions) {
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const auto result : {std::optional<DType>(), std::optional(DType::kF32)})
      expect_on_each_isa({Type::array(dtype, {33, 70}), Type::array(dtype, {19, 70})}, [&](Builder&, auto& v) {
        return ops::dot(ops::transpose(v[0], {1, 0}), ops::transpose(v[1], {1, 0}), {{}, {0}, {}, {0}}, result);
      });
}

// Rows, columns and depths larger than one block, one panel and one vector; transposed operands; batches; results of
// both types.
TEST(Dots, OfSixteenBitsSpanSeveralBlocks) {
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const Sizes& one : {Sizes{1030, 41, 33}, Sizes{17, 3110, 20}, Sizes{31, 47, 801}})
    for (const bool turns_lhs : {false, true})
      for (const bool turns_rhs : {false, true})
        expect_on_each_isa(
            {Type::array(DType::kBF16, turns_lhs ? Dims{one.k, one.m} : Dims{one.m, one.k}),
             Type::array(DType::kBF16, turns_rhs ? Dims{one.n, one.k} : Dims{one.k, one.n})},
            [&](Builder&, auto& v) {
              return ops::dot(v[0], v[1], {{}, {turns_lhs ? 0 : 1}, {}, {turns_rhs ? 1 : 0}},
                              turns_lhs ? std::optional(DType::kF32) : std::nullopt);
            },
            512);  // steps of bf16 or f32: sums of up to 801 products of numbers up to 4
  expect_on_each_isa({Type::array(DType::kBF16, {2, 33, 3, 70}), Type::array(DType::kBF16, {2, 18, 3, 70})},
                     [](Builder&, auto& v) {
                       return ops::dot(v[0], v[1], {{0, 2}, {3}, {0, 2}, {3}}, DType::kF32);
                     });
}

TEST(Dots, AddInPlaceToASummandWithoutLaterUse) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16})
    for (const Dims& dims : std::vector<Dims>{{3, 5}, {40, 33}, {64, 81}}) {
      const Type x = Type::array(dtype, {7, dims[0]});
      const Type y = Type::array(dtype, {7, dims[1]});
      const Program program = expect_on_each_isa({x, y, x, y, x, y}, [](Builder&, auto& v) {
        const auto over_rows_of = [&](std::size_t i) {
          return ops::dot(v[i], v[i + 1], {{}, {0}, {}, {0}}, DType::kF32);
        };
        return ops::add(ops::add(over_rows_of(0), over_rows_of(2)), over_rows_of(4));
      });
      if (dtype != DType::kF64) {
        EXPECT_EQ(step_sizes(program), (std::vector<std::size_t>{1, 2, 2}));
      }
    }
  // Does not add in place if the other summand is used later, or is the product itself.
  expect_on_each_isa({Type::array(DType::kF32, {9, 9})}, [](Builder&, auto& v) {
    const Value d = ops::dot(v[0], v[0], {{}, {1}, {}, {0}});
    const Value e = ops::exp(v[0]);
    return ops::multiply(ops::add(e, ops::dot(v[0], e, {{}, {1}, {}, {0}})), ops::add(e, ops::add(d, d)));
  });
}

struct DotCase {
  Dims lhs, rhs;
  DotAttributes dims;
};

TEST(Dot, SupportsEveryOrderOfDimsInEveryType) {
  const std::vector<DotCase> cases = {{{5, 7}, {7, 3}, {{}, {1}, {}, {0}}},
                                      {{7, 5}, {7, 3}, {{}, {0}, {}, {0}}},
                                      {{5, 7}, {3, 7}, {{}, {1}, {}, {1}}},
                                      {{7, 5}, {3, 7}, {{}, {0}, {}, {1}}},
                                      {{2, 5, 7}, {2, 7, 3}, {{0}, {2}, {0}, {1}}},
                                      {{5, 2, 7}, {3, 2, 7}, {{1}, {2}, {1}, {2}}},
                                      {{2, 3, 5, 7}, {5, 7, 4}, {{}, {2, 3}, {}, {0, 1}}},
                                      {{2, 3, 5, 7}, {7, 4, 3}, {{}, {1, 3}, {}, {2, 0}}},
                                      {{4}, {4}, {{}, {0}, {}, {0}}},
                                      {{3}, {4}, {{}, {}, {}, {}}},
                                      {{1, 9}, {9, 1}, {{}, {1}, {}, {0}}},
                                      {{2, 3, 4, 5}, {2, 6, 4, 5}, {{0, 2}, {3}, {0, 2}, {3}}},
                                      {{0, 7}, {7, 3}, {{}, {1}, {}, {0}}},
                                      {{5, 0}, {0, 3}, {{}, {1}, {}, {0}}}};
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kS32, DType::kU8}) {
    for (const DotCase& one : cases) {
      SCOPED_TRACE(fmt::format("{} [{}] [{}]", dtype_name(dtype), fmt::join(one.lhs, ","), fmt::join(one.rhs, ",")));
      expect_as_reference(
          {Type::array(dtype, one.lhs), Type::array(dtype, one.rhs)},
          [&](Builder&, const std::vector<Value>& v) { return ops::dot(v[0], v[1], one.dims); }, 32);
    }
  }
  expect_as_reference(
      {Type::array(DType::kBF16, {33, 65}), Type::array(DType::kBF16, {65, 17})},
      [](Builder&, const auto& v) {
        return ops::dot(v[0], v[1], {{}, {1}, {}, {0}}, DType::kF32);
      },
      64);
}

// Each dim in turn is larger than a block and not a multiple of it: on processors with tile registers these products
// use them.
TEST(Dot, SupportsLargeBf16OperandsInEveryOrder) {
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const auto& [m, n, k] : {Sizes{70, 90, 5401}, Sizes{1101, 40, 1077}, Sizes{37, 4130, 290}, Sizes{576, 640, 96}})
    for (const int order : {0, 1, 2, 3}) {
      const bool turns_lhs = order % 2 == 1;
      const bool turns_rhs = order / 2 == 1;
      const DType result = order == 1 ? DType::kF32 : DType::kBF16;
      const Type lhs = Type::array(DType::kBF16, turns_lhs ? Dims{k, m} : Dims{m, k});
      const Type rhs = Type::array(DType::kBF16, turns_rhs ? Dims{n, k} : Dims{k, n});
      SCOPED_TRACE(fmt::format("{}x{}x{}, order {}", m, n, k, order));
      expect_as_reference(
          {lhs, rhs},
          [&](Builder&, const std::vector<Value>& v) {
            return ops::dot(v[0], v[1], {{}, {turns_lhs ? 0 : 1}, {}, {turns_rhs ? 1 : 0}}, result);
          },
          result == DType::kF32 ? 2048 : 2);
    }
}

// Gradients of weights, whose rows are 2 or 4 KiB apart: on AVX2, the packing loop computes them.
TEST(Dot, SupportsRowsThatShareASetOfTheCache) {
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{128, 512}, {512, 100}, {97, 1024}})
    for (const std::int64_t k : {1, 37, 400}) {
      SCOPED_TRACE(fmt::format("{}x{}x{}", m, n, k));
      expect_as_reference(
          {Type::array(DType::kF32, {k, m}), Type::array(DType::kF32, {k, n})},
          [](Builder&, const std::vector<Value>& v) {
            return ops::dot(v[0], v[1], {{}, {0}, {}, {0}});
          },
          512);
    }
}

TEST(Dot, AddsLargeBf16ProductsToExistingValues) {
  const Type sums = Type::array(DType::kF32, {600, 650});
  expect_as_reference(
      {Type::array(DType::kBF16, {1100, 600}), Type::array(DType::kBF16, {1100, 650}), sums},
      [](Builder&, const std::vector<Value>& v) {
        return ops::add(ops::negate(v[2]), ops::dot(v[0], v[1], {{}, {0}, {}, {0}}, DType::kF32));
      },
      2048);
}

// Gradients of weights: the left operand is transposed and larger than the second-level cache.
TEST(Dot, SupportsLargeTransposedLeftOperands) {
  const Type lhs = Type::array(DType::kF32, {523, 2053});
  for (const Type& rhs : {Type::array(DType::kF32, {523, 37}), Type::array(DType::kF32, {37, 523})}) {
    const int contracted = rhs.dim(0) == 523 ? 0 : 1;
    expect_as_reference(
        {lhs, rhs, Type::array(DType::kF32, {2053, 37})},
        [&](Builder&, const std::vector<Value>& v) {
          return ops::add(ops::negate(v[2]), ops::dot(v[0], v[1], {{}, {0}, {}, {contracted}}));
        },
        2048);
  }
}

TEST(Dot, ReadsTransposedAndSlicedOperandsInPlace) {
  for (const Dims& dims : {Dims{2, 6, 3, 8}, Dims{2, 150, 3, 64}})
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16})
      expect_as_reference(
          {Type::array(dtype, dims), Type::array(dtype, dims)},
          [&](Builder&, const std::vector<Value>& v) {  // [B,T,H,D] attention products
            const Value q = ops::transpose(v[0], {0, 2, 1, 3});
            const Value k = ops::transpose(ops::slice_dim(v[1], 1, 1, dims[1] - 1), {0, 2, 3, 1});
            return ops::dot(q, k, {{0, 1}, {3}, {0, 1}, {2}});
          },
          dtype == DType::kBF16 ? 4 : 256);
}

// Two reverses cancel each other, unless the first result is in memory because another dot reads it.
TEST(Dots, ReadAReverseOfAReverse) {
  for (const int dim : {0, 1})
    expect_on_each_isa({Type::array(DType::kF32, {24, 20}), Type::array(DType::kF32, {24, 20})},
                       [&](Builder& b, auto& v) {
                         const Value once = ops::reverse(v[1], {dim});
                         const Value twice = ops::reverse(once, {dim});
                         const DotAttributes over_rows{{}, {0}, {}, {0}};
                         return ops::tuple(b, {ops::dot(twice, v[0], over_rows), ops::dot(once, v[0], over_rows)});
                       });
}

}  // namespace
}  // namespace tessera

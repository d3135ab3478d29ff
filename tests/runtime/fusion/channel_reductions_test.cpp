// SPDX-License-Identifier: Apache-2.0
// Reductions over dims on both sides of one that stays, as in batch norm: they are fused with the groups that compute
// their operands.
#include <gtest/gtest.h>

#include "runtime/close.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {
namespace {

using testing::program_of;

// Returns the bytes in memory between the steps of the program, after comparing its results with the reference.
std::int64_t arena_as_evaluated(const Program& program, double units = 64) {
  const auto world = make_single_rank_world();
  const auto arguments = testing::random_arguments(program, 5);
  EXPECT_TRUE(testing::close(run_program(program, *world, arguments), evaluate(program, arguments), units));
  return compile(program, *world)->memory().arena;
}

Value per_channel(Value v, Value x) { return ops::broadcast(v, x.type().dims(), {1}); }
Value mean(Builder& b, Value x) {
  const Value sum = ops::reduce(x, Reduction::kSum, {0, 2, 3});
  const auto count = static_cast<double>(x.type().element_count()) / static_cast<double>(sum.type().element_count());
  return ops::multiply(sum, ops::full(b, sum.type(), 1 / count));
}

TEST(ChannelReductions, ABatchNormWritesItsResultAndNoSquares) {
  for (const Dims& dims : std::vector<Dims>{{3, 5, 90, 71}, {2, 7, 96, 96}, {1, 13, 113, 97}}) {
    const Program program = program_of({Type::array(DType::kF32, dims)}, [](Builder& b, auto& v) {
      const Value centered = ops::subtract(v[0], per_channel(mean(b, v[0]), v[0]));
      const Value variance = mean(b, ops::multiply(centered, centered));
      const Value scale = ops::rsqrt(ops::add(variance, ops::full(b, variance.type(), 1e-5)));
      return ops::multiply(ops::subtract(v[0], per_channel(mean(b, v[0]), v[0])), per_channel(scale, v[0]));
    });
    const std::int64_t value_bytes = Type::array(DType::kF32, dims).byte_size();
    EXPECT_LT(arena_as_evaluated(program), value_bytes / 2) << dims.front();
  }
}

TEST(ChannelReductions, SupportAllKindsTypesAndInitialValues) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kS32})
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin, Reduction::kProduct})
      for (const Dims& reduced : std::vector<Dims>{{0, 2, 3}, {0, 3}, {0, 1, 2, 3}, {1, 3}, {0, 1, 3}, {0, 2}})
        arena_as_evaluated(program_of({Type::array(dtype, {3, 2, 5, 67})},
                                      [&](Builder& b, auto& v) {
                                        const Value x = ops::add(v[0], ops::full(b, v[0].type(), 1));
                                        const Value init = ops::full(b, Type::scalar(dtype), 3);
                                        return ops::reduce({x}, {init}, reduced,
                                                           ops::reduction_computation(b.program(), reduction, dtype));
                                      }),
                           4096);
}

TEST(ChannelReductions, OverAllElementsOfALargeArrayAreFused) {
  const Program program = program_of({Type::array(DType::kF32, {70, 3, 1031})}, [](Builder&, auto& v) {
    return ops::reduce(ops::multiply(v[0], v[0]), Reduction::kSum, {0, 1, 2});
  });
  EXPECT_LT(arena_as_evaluated(program, 4096), 1 << 16);  // no squares
}

// One pass computes all sums for the gradient of a batch norm.
TEST(ChannelReductions, OfOneValueAreFused) {
  const Type type = Type::array(DType::kF32, {5, 3, 90, 131});
  const Program program = program_of({type, type}, [](Builder& b, auto& v) {
    const Value product = ops::multiply(v[0], v[1]);
    const Value sums = ops::reduce(product, Reduction::kSum, {0, 2, 3});
    const Value scaled = ops::multiply(sums, sums);
    const Value others = ops::reduce(ops::add(product, v[1]), Reduction::kSum, {0, 2, 3});
    return ops::tuple(b, {scaled, others});
  });
  EXPECT_LT(arena_as_evaluated(program), type.byte_size() / 2);
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/indexing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

template <class F>
Literal result_of(F&& emit, const std::vector<Literal>& arguments) {
  ProgramBuilder program("test");
  Builder main = program.computation("main");
  std::vector<Value> parameters;
  for (const Literal& argument : arguments)
    parameters.push_back(ops::parameter(main, isize(parameters), argument.type()));
  const Value root = emit(main, parameters);
  const auto entry = program.add(std::move(main), root);
  return evaluate(program.finish(entry), arguments);
}
Literal s32s(const Dims& dims, const std::vector<std::int32_t>& values) {
  return Literal::from<std::int32_t>(dims, values);
}
using Values = std::vector<Value>;

TEST(Gather, ClampsEachWindowIntoTheOperand) {
  const Literal out = result_of([](Builder&, const Values& p) { return ops::take_rows(p[0], p[1]); },
                                {s32s({3, 2}, {0, 1, 10, 11, 20, 21}), s32s({4}, {-5, 2, 3, 1})});
  EXPECT_EQ(out, s32s({4, 2}, {0, 1, 20, 21, 20, 21, 10, 11}));
}

TEST(Gather, TreatsAnUnsignedIndexBeyondTheRangeAsLarge) {
  const Literal index = Literal::from<std::uint64_t>({1}, {std::numeric_limits<std::uint64_t>::max()});
  const Literal out =
      result_of([](Builder&, const Values& p) { return ops::take_rows(p[0], p[1]); }, {s32s({3}, {7, 8, 9}), index});
  EXPECT_EQ(out, s32s({1}, {9}));
}

TEST(Scatter, DropsAWindowThatReachesOutside) {
  const auto emit = [](Builder& main, const Values& p) {
    ScatterAttributes dims;
    dims.update_window_dims = {1};
    dims.scatter_dims_to_operand_dims = {0};
    dims.index_vector_dim = 1;
    const auto add = ops::reduction_computation(main.program(), Reduction::kSum, DType::kS32);
    return ops::scatter({p[0]}, p[1], {p[2]}, dims, add);
  };
  // Windows of two elements at 4 (half outside), -1, 1, 1.
  const Literal out =
      result_of(emit, {s32s({5}, {0, 0, 0, 0, 0}), s32s({4}, {4, -1, 1, 1}), s32s({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})});
  EXPECT_EQ(out, s32s({5}, {0, 12, 14, 0, 0}));
}

TEST(Scatter, CombinesInTheOrderOfTheIndices) {
  const auto emit = [](Builder& main, const Values& p) {
    ScatterAttributes dims;
    dims.inserted_window_dims = {0};
    dims.scatter_dims_to_operand_dims = {0};
    dims.index_vector_dim = 1;
    Builder inner = main.program().computation("last");
    ops::parameter(inner, 0, Type::scalar(DType::kS32));
    const Value second = ops::parameter(inner, 1, Type::scalar(DType::kS32));
    const auto overwrite = main.program().add(std::move(inner), second);
    return ops::scatter({p[0]}, p[1], {p[2]}, dims, overwrite);
  };
  EXPECT_EQ(result_of(emit, {s32s({3}, {0, 0, 0}), s32s({3}, {1, 2, 1}), s32s({3}, {5, 6, 7})}), s32s({3}, {0, 7, 6}));
}

TEST(DynamicSlice, ClampsItsStart) {
  const auto emit = [](Builder&, const Values& p) { return ops::dynamic_slice(p[0], {p[1]}, {3}); };
  EXPECT_EQ(result_of(emit, {s32s({5}, {0, 1, 2, 3, 4}), s32s({}, {4})}), s32s({3}, {2, 3, 4}));
  EXPECT_EQ(result_of(emit, {s32s({5}, {0, 1, 2, 3, 4}), s32s({}, {-4})}), s32s({3}, {0, 1, 2}));
}

Literal sorted(const Literal& keys, CompareDirection direction, CompareType type, bool flipped = false) {
  return result_of(
      [=](Builder& main, const Values& p) {
        Builder inner = main.program().computation("goes_first");
        const Type scalar = Type::scalar(p[0].type().dtype());
        const Value x = ops::parameter(inner, 0, scalar);
        const Value y = ops::parameter(inner, 1, scalar);
        const Value root = flipped ? ops::compare(y, x, direction, type) : ops::compare(x, y, direction, type);
        return ops::sort({p[0]}, 0, true, main.program().add(std::move(inner), root));
      },
      {keys});
}

TEST(Sort, OrdersBothWaysAndThroughAFlippedComparator) {
  const Literal keys = s32s({5}, {3, -1, 4, 1, -5});
  EXPECT_EQ(sorted(keys, CompareDirection::kLt, CompareType::kDefault), s32s({5}, {-5, -1, 1, 3, 4}));
  EXPECT_EQ(sorted(keys, CompareDirection::kGt, CompareType::kDefault), s32s({5}, {4, 3, 1, -1, -5}));
  EXPECT_EQ(sorted(keys, CompareDirection::kGt, CompareType::kDefault, true), s32s({5}, {-5, -1, 1, 3, 4}));
}

TEST(Sort, PutsNanLastInTheTotalOrder) {
  const float nan = std::nanf("");
  const Literal out = sorted(Literal::from<float>({5}, {nan, 1, -0.0F, INFINITY, 0.0F}), CompareDirection::kLt,
                             CompareType::kTotalOrder);
  const auto values = out.data<float>();
  EXPECT_TRUE(std::signbit(values[0]));
  EXPECT_FALSE(std::signbit(values[1]));
  EXPECT_EQ(values[2], 1);
  EXPECT_EQ(values[3], INFINITY);
  EXPECT_TRUE(std::isnan(values[4]));
}

TEST(Sort, IsStableAndPermutesAllOperandsEqually) {
  const auto emit = [](Builder& main, const Values& p) {
    Builder inner = main.program().computation("by_tens");
    Values v;
    for (int i = 0; i < 4; ++i) v.push_back(ops::parameter(inner, i, Type::scalar(DType::kS32)));
    const Value ten = ops::scalar(inner, DType::kS32, 10);
    const Value root = ops::compare(ops::divide(v[0], ten), ops::divide(v[1], ten), CompareDirection::kLt);
    const Value both = ops::sort({p[0], p[1]}, 1, true, main.program().add(std::move(inner), root));
    return ops::get_tuple_element(both, 1);
  };
  const Literal keys = s32s({2, 5}, {21, 12, 22, 11, 3, 5, 4, 3, 2, 1});
  const Literal places = s32s({2, 5}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
  EXPECT_EQ(result_of(emit, {keys, places}), s32s({2, 5}, {4, 1, 3, 0, 2, 0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace tessera

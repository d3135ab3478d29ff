// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/run_text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

class Factors : public ::testing::Test {
 protected:
  Value f32(Dims dims) { return ops::parameter(main, next++, Type::array(DType::kF32, std::move(dims))); }
  OpView view(Value v) { return view_of(program.program(), main.computation(), v.instruction()); }
  std::string of(Value v) {
    const OpView seen = view(v);
    return seen.op.factors(seen).str();
  }
  Dims sizes(Value v) {
    Dims out;
    const OpView seen = view(v);
    for (const auto& factor : seen.op.factors(seen).factors) out.push_back(factor.size);
    return out;
  }
  ProgramBuilder program{"factors"};
  Builder main = program.computation("main");
  std::int64_t next = 0;
};

TEST_F(Factors, OfADotAreBatchFreeAndContractingDims) {
  EXPECT_EQ(of(ops::dot(f32({2, 8, 3}), f32({3, 2, 5}), {{0}, {2}, {1}, {0}})),
            "([i,j,l],[l,i,k])->([i,j,k]) reduce{l}");
}

TEST_F(Factors, OfElementwiseOpsAreSharedAndScalarsHaveNone) {
  EXPECT_EQ(of(ops::add(f32({3, 5}), f32({3, 5}))), "([i,j],[i,j])->([i,j])");
  EXPECT_EQ(of(ops::clamp(f32({}), f32({3, 5}), f32({}))), "([],[i,j],[])->([i,j])");
}

TEST_F(Factors, OfAReshapeSplitAndMergeDims) {
  EXPECT_EQ(of(ops::reshape(f32({6, 5}), {2, 3, 5})), "([ij,k])->([i,j,k])");
  EXPECT_EQ(of(ops::reshape(f32({2, 3, 5}), {6, 5})), "([i,j,k])->([ij,k])");
  EXPECT_EQ(of(ops::reshape(f32({4, 6}), {2, 12})), "([ij,k])->([i,jk])");
  EXPECT_EQ(of(ops::reshape(f32({1, 6, 1}), {6})), "([1,i,1])->([i])");
  EXPECT_EQ(sizes(ops::reshape(f32({4, 6}), {2, 12})), (Dims{2, 2, 6}));
}

TEST_F(Factors, OfAReshapeAreBlockedOnlyWithoutACommonFactorization) {
  // 3x5 -> 5x3 has no common factors; the dims around it keep theirs.
  EXPECT_EQ(of(ops::reshape(f32({2, 3, 5, 7}), {2, 5, 3, 7})), "([i,j,l,n])->([i,k,m,n]) blocked{j,k,l,m}");
  // 6x4 -> 4x6: the common major factor 2 stays.
  EXPECT_EQ(of(ops::reshape(f32({6, 4}), {4, 6})), "([ij,m])->([ik,l]) blocked{j,k,l,m}");
}

TEST_F(Factors, OfMovedDimsArePermuted) {
  EXPECT_EQ(of(ops::slice_dim(f32({7, 5}), 0, 1, 4)), "([i,j])->([i,j]) permute{i}");
  EXPECT_EQ(of(ops::pad(f32({7, 5}), f32({}), {{0, 0, 0}, {1, 0, 0}})), "([i,j],[])->([i,j]) permute{j}");
  EXPECT_EQ(of(ops::concatenate({f32({2, 5}), f32({3, 5})}, 0)), "([i,j],[i,j])->([i,j]) permute{i}");
  EXPECT_EQ(of(ops::reverse(f32({2, 5}), {1})), "([i,j])->([i,j]) permute{j}");
}

TEST_F(Factors, OfABroadcastOccurInTheResultOnly) {
  EXPECT_EQ(of(ops::broadcast(f32({3, 5}), {5, 2, 3}, {2, 0})), "([k,i])->([i,j,k])");
}

TEST_F(Factors, OfAReduceContainTheReduction) {
  const Value max = ops::reduce(f32({3, 5}), Reduction::kMax, {1});
  EXPECT_EQ(of(max), "([i,j],[])->([i]) reduce{j}");
  const OpView seen = view(max);
  EXPECT_EQ(seen.op.factors(seen).reduction, Reduction::kMax);
  EXPECT_TRUE(seen.op.factors(seen).reduction_known);
}

TEST_F(Factors, FlopsCountProductsAndReducedElements) {
  const auto flops = [&](Value v) {
    const OpView seen = view(v);
    return seen.op.flops(seen);
  };
  EXPECT_EQ(flops(ops::dot(f32({2, 8, 3}), f32({3, 2, 5}), {{0}, {2}, {1}, {0}})), 2.0 * 2 * 8 * 3 * 5);
  EXPECT_EQ(flops(ops::reduce(f32({3, 5}), Reduction::kSum, {1})), 15.0);
}

}  // namespace
}  // namespace tessera

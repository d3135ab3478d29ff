// SPDX-License-Identifier: Apache-2.0
// Matrices of derivatives, and tree_map.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/control/jacobians.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::counted;

void expect_near_numbers(const Tensor& x, const std::vector<double>& expected) {
  const auto got = testing::numbers(x);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
}

// [n] -> [2, n]: x^3 and the sine.
Tensor two_rows(const Tensor& x) { return stack({x * x * x, sin(x)}); }

TEST(Jacobians, OfElementwiseFunctionsAreDiagonal) {
  const FreshRank rank;
  const Tensor x = counted({3}) * 0.5 + 0.25;
  std::vector<double> expected;
  for (int row = 0; row < 2; ++row)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        const double v = 0.5 * i + 0.25;
        expected.push_back(i != j ? 0 : row == 0 ? 3 * v * v : std::cos(v));
      }
  for (const Tensor& jacobian : {jacrev(two_rows)(x), jacfwd(two_rows)(x)}) {
    EXPECT_EQ(jacobian.dims(), Dims({2, 3, 3}));
    expect_near_numbers(jacobian, expected);
  }
}

TEST(Jacobians, OfAProductWithRespectToTheFirstArgument) {
  const FreshRank rank;
  const Tensor w = counted({2, 3}), x = counted({3}) + 1.0;
  const auto f = [](const Tensor& v, const Tensor& by) { return matmul(by, v); };
  expect_near_numbers(jacrev(f)(x, w), testing::numbers(w));
  expect_near_numbers(jacfwd(f)(x, w), testing::numbers(w));
}

// sum(x^4) + x0 x1 x2: the second derivatives are 12 xi^2 on the diagonal, and the product of the others elsewhere.
TEST(Jacobians, HessiansAreTheSecondDerivatives) {
  const FreshRank rank;
  const Tensor x = Tensor::from({1.0, 2.0, -3.0}, {3});
  const auto f = [](const Tensor& v) { return sum(square(square(v))) + prod(v); };
  expect_near_numbers(hessian(f)(x), {12, -3, 2, -3, 48, 1, 2, 1, 108});
  const auto of_matrix = [](const Tensor& v) { return sum(v * v) * 0.5; };
  EXPECT_EQ(hessian(of_matrix)(counted({2, 3})).dims(), Dims({2, 3, 2, 3}));
  expect_near_numbers(hessian(of_matrix)(counted({2, 3})).reshape(6, 6), testing::numbers(eye(6, {}, kF64)));
}

TEST(Jacobians, OfIntegersAreErrors) {
  const FreshRank rank;
  const std::string error = testing::error_of([] { (void)jacfwd([](const Tensor& v) { return v * 2; })(arange(3)); });
  EXPECT_TRUE(error.starts_with("jacobian: needs functions of floats with floats as results, got s32[3]\n")) << error;
}

TEST(TreeMap, AppliesAFunctionToEachTensor) {
  const FreshRank rank;
  using Tree = std::pair<Tensor, std::vector<Tensor>>;
  const Tree x{counted({2}), {counted({3}), Tensor()}}, y{ones({2}, kF64), {ones({3}, kF64), Tensor()}};
  const Tree sums = tree_map([](const Tensor& a, const Tensor& b) { return a + b * 10.0; }, x, y);
  expect_near_numbers(sums.first, {10, 11});
  expect_near_numbers(sums.second[0], {10, 11, 12});
  EXPECT_TRUE(sums.second[1].is_null());
  expect_near_numbers(tree_map([](const Tensor& a) { return -a; }, x).first, {0, -1});
  const Tree shorter{counted({2}), {Tensor(), Tensor()}};
  EXPECT_EQ(testing::error_of([&] { (void)tree_map([](const Tensor& a, const Tensor&) { return a; }, x, shorter); }),
            "tree_map: the trees have 2 and 1 tensors");
}

}  // namespace
}  // namespace tessera

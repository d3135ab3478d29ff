// SPDX-License-Identifier: Apache-2.0
// Losses of classes, likelihoods, distances and rankings equal PyTorch's definitions, computed here element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "frontend/on_ranks.h"
#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/losses.h"

namespace tessera::nn {
namespace {

constexpr std::size_t kVectors = 5, kSize = 3;

double sum_of(const Numbers& x) {
  double out = 0;
  for (const double value : x) out += value;
  return out;
}

Tensor signs() { return Tensor::from<double>({5}, {1, -1, -1, 1, -1}); }

/// Compares all reductions and the gradients of a loss with one number for each of several samples.
void expect_loss(const std::function<Tensor(LossReduction)>& loss, const Numbers& expected,
                 const std::vector<Tensor>& variables) {
  expect_near(values_of(loss(LossReduction::kNone)), expected, 1e-13);
  const auto count = static_cast<double>(expected.size());
  EXPECT_NEAR(loss(LossReduction::kSum).item(), sum_of(expected), 1e-12);
  EXPECT_NEAR(loss(LossReduction::kMean).item(), sum_of(expected) / count, 1e-13);
  tessera::expect_gradients([&] { return loss(LossReduction::kMean); }, variables);
}

TEST(NllLoss, IsTheLossOfCrossEntropyForLogarithms) {
  const FreshRank rank;
  const Tensor logits = numbers({2, 3, 7});
  const Tensor labels = Tensor::from<std::int32_t>({2, 3}, {3, 0, -1, 6, 3, -1});
  const Tensor weight = Tensor::from<double>({7}, {1, 0.5, 2, 3, 0.25, 1, 4});
  for (const Tensor& weights : {Tensor(), weight})
    for (const auto reduction : {LossReduction::kNone, LossReduction::kSum, LossReduction::kMean}) {
      const NllOptions options{.ignore_index = -1, .weight = weights, .reduction = reduction};
      const Tensor expected =
          cross_entropy(logits, labels, {.ignore_index = -1, .weight = weights, .reduction = reduction});
      expect_near(values_of(nll_loss(log_softmax(logits, -1), labels, options)), values_of(expected), 1e-13);
    }
  Tensor log_p = Tensor::from<double>({2, 3}, {-1, -2, -3, -4, -5, -6}).set_requires_grad();
  const Tensor loss = nll_loss(log_p, Tensor::from<std::int32_t>({2}, {2, 0}));
  loss.backward();
  mark_step();
  EXPECT_NEAR(loss.item(), 3.5, 1e-15);
  EXPECT_EQ(values_of(log_p.grad()), (Numbers{0, 0, -0.5, -0.5, 0, 0}));
}

TEST(GaussianNll, EqualsTheDefinitionForEveryShapeOfTheVariance) {
  const FreshRank rank;
  const Tensor x = numbers({5, 3}), y = numbers({5, 3}, 2);
  const Numbers a = values_of(x), b = values_of(y);
  for (const Dims& dims : {Dims{5, 3}, Dims{5, 1}, Dims{5}}) {
    Tensor v = Tensor::from_host((square(numbers(dims, 3)) + 0.2).to_host());
    const Numbers variances = values_of(v);
    for (const bool full : {false, true}) {
      Numbers expected;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double variance = variances[variances.size() == 5 ? i / 3 : i];
        expected.push_back((std::log(variance) + (a[i] - b[i]) * (a[i] - b[i]) / variance) / 2 +
                           (full ? std::log(2 * std::numbers::pi) / 2 : 0));
      }
      expect_loss([&](LossReduction r) { return gaussian_nll_loss(x, y, v, {.full = full, .reduction = r}); }, expected,
                  {x, y, v});
    }
  }
}

// The bound of the variance changes its value, but its gradient is that at the bound.
TEST(GaussianNll, SmallVariancesAreEpsilon) {
  const FreshRank rank;
  Tensor v = Tensor::from<double>({1}, {0}).set_requires_grad();
  const Tensor loss = gaussian_nll_loss(Tensor::from<double>({1}, {2}), Tensor::from<double>({1}, {1}), v,
                                        {.epsilon = 0.5, .reduction = LossReduction::kSum});
  loss.backward();
  mark_step();
  EXPECT_NEAR(loss.item(), (std::log(0.5) + 2) / 2, 1e-14);
  EXPECT_NEAR(v.grad().item(), (2 - 4) / 2.0, 1e-14);
}

TEST(PoissonNll, TheFullLossHasStirlingsTermForCountsAboveOne) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({4}, {0.5, -1, 2, 0.25});
  const Tensor y = Tensor::from<double>({4}, {0, 1, 3, 7});
  const auto stirling = [](double n) { return n * std::log(n) - n + std::log(2 * std::numbers::pi * n) / 2; };
  expect_loss([&](LossReduction r) { return poisson_nll_loss(x, y, {.full = true, .reduction = r}); },
              {std::exp(0.5), std::exp(-1) + 1, std::exp(2) - 6 + stirling(3), std::exp(0.25) - 1.75 + stirling(7)},
              {x});
}

TEST(SmoothL1, IsTheL1LossIfBetaIs0) {
  const FreshRank rank;
  Tensor x = Tensor::from<double>({3}, {1, 2, 5}).set_requires_grad();
  const Tensor loss = smooth_l1_loss(x, Tensor::from<double>({3}, {1, 4, 3}), 0, LossReduction::kSum);
  loss.backward();
  mark_step();
  EXPECT_EQ(loss.item(), 4);
  EXPECT_EQ(values_of(x.grad()), (Numbers{0, -1, 1}));
}

TEST(MarginRanking, ThePreferredOneIsLargerByTheMargin) {
  const FreshRank rank;
  const Tensor x1 = numbers({5}), x2 = numbers({5}, 2), target = Tensor::from<double>({5}, {-1, 1, -1, -1, 1});
  const Numbers a = values_of(x1), b = values_of(x2), y = values_of(target);
  Numbers expected;
  for (std::size_t i = 0; i < 5; ++i) expected.push_back(std::max(0.0, 0.3 - y[i] * (a[i] - b[i])));
  EXPECT_EQ(std::count(expected.begin(), expected.end(), 0.0), 2);
  expect_loss([&](LossReduction r) { return margin_ranking_loss(x1, x2, target, {.margin = 0.3, .reduction = r}); },
              expected, {x1, x2});
}

TEST(HingeEmbedding, DistancesOfOtherPairsReachTheMargin) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({5}, {0.3, 0.4, 1.7, 2.5, 0.1});
  for (const Tensor& target : {signs(), Tensor::from<std::int32_t>({5}, {1, -1, -1, 1, -1})})
    expect_loss([&](LossReduction r) { return hinge_embedding_loss(x, target, {.margin = 1.5, .reduction = r}); },
                {0.3, 1.1, 0, 2.5, 1.4}, {x});
}

TEST(CosineEmbedding, EqualsTheDefinition) {
  const FreshRank rank;
  const Tensor x1 = numbers({5, 3}), x2 = numbers({5, 3}, 2);
  const Numbers a = values_of(x1), b = values_of(x2), y = values_of(signs());
  Numbers expected;
  for (std::size_t i = 0; i < kVectors; ++i) {
    double ab = 0, aa = 1e-12, bb = 1e-12;
    for (std::size_t d = i * kSize; d < (i + 1) * kSize; ++d) ab += a[d] * b[d], aa += a[d] * a[d], bb += b[d] * b[d];
    const double cosine = ab / std::sqrt(aa * bb);
    expected.push_back(y[i] == 1 ? 1 - cosine : std::max(0.0, cosine - 0.1));
  }
  expect_loss([&](LossReduction r) { return cosine_embedding_loss(x1, x2, signs(), {.margin = 0.1, .reduction = r}); },
              expected, {x1, x2});
  const Tensor one = cosine_embedding_loss(x1.select(0, 0), x2.select(0, 0), Tensor::full(Type::scalar(kF64), 1));
  EXPECT_NEAR(one.item(), expected[0], 1e-13);
}

TEST(TripletMargin, EqualsTheDefinition) {
  const FreshRank rank;
  const Tensor anchor = numbers({5, 3}), positive = numbers({5, 3}, 2), negative = numbers({5, 3}, 5);
  const Numbers a = values_of(anchor), b = values_of(positive), c = values_of(negative);
  for (const double p : {2.0, 1.0, 3.0})
    for (const bool swap : {false, true}) {
      const auto distance = [&](const Numbers& x, const Numbers& y, std::size_t i) {
        double sum = 0;
        for (std::size_t d = i * kSize; d < (i + 1) * kSize; ++d) sum += std::pow(std::abs(x[d] - y[d] + 1e-6), p);
        return std::pow(sum, 1 / p);
      };
      Numbers expected;
      for (std::size_t i = 0; i < kVectors; ++i) {
        double far = distance(a, c, i);
        if (swap) far = std::min(far, distance(b, c, i));
        expected.push_back(std::max(0.0, distance(a, b, i) - far + 0.7));
      }
      expect_loss(
          [&](LossReduction r) {
            return triplet_margin_loss(anchor, positive, negative,
                                       {.margin = 0.7, .p = p, .swap = swap, .reduction = r});
          },
          expected, {anchor, positive, negative});
    }
}

// The sum of all losses, and its gradients, with sharded rows or a sharded last dim.
Numbers losses_on(const std::string& layout, const std::string& spec) {
  const Mesh mesh = Mesh::parse(layout);
  std::vector<Tensor> x;
  for (int i = 1; i <= 3; ++i) {
    x.push_back(numbers({5, 3}, i).set_requires_grad());
    mark_sharding(x.back(), mesh, PartitionSpec::parse(spec));
  }
  const Tensor labels = Tensor::from<std::int32_t>({5}, {2, 0, -100, 1, 1});
  const Tensor loss = nll_loss(log_softmax(x[0], -1), labels) + gaussian_nll_loss(x[0], x[1], square(x[2]) + 0.3) +
                      poisson_nll_loss(x[0], x[1]) + huber_loss(x[1], x[2], 0.4) +
                      margin_ranking_loss(x[0], x[1], sign(x[2].detach())) +
                      cosine_embedding_loss(x[0], x[1], signs()) + triplet_margin_loss(x[0], x[1], x[2]);
  loss.backward();
  mark_step();
  Numbers out{loss.item()};
  for (const Tensor& each : x)
    for (const double value : values_of(each.grad())) out.push_back(value);
  return out;
}

TEST(MoreLosses, DoNotDependOnTheMesh) {
  Numbers expected;
  {
    const FreshRank rank;
    expected = losses_on("a=1", "a,-");
  }
  for (const auto& [layout, spec] :
       {std::pair("a=2", "a,-"), std::pair("a=3", "-,a"), std::pair("a=3,b=2", "a,b"), std::pair("a=2,b=2", "a+b,-")})
    on_ranks(static_cast<int>(Mesh::parse(layout).device_count()), [&, layout = layout, spec = spec](int) {
      expect_close(losses_on(layout, spec), expected, layout, 1e-11);
    });
}

TEST(MoreLosses, ErrorsNameTheShapes) {
  const FreshRank rank;
  const Tensor x = numbers({5, 3}), y = numbers({3, 5});
  expect_error(
      [&] {
        (void)nll_loss(x, Tensor::from<std::int32_t>({2}, {0, 1}));
      },
      "nll_loss: log probabilities f64[5,3] need labels [5], got s32[2]");
  expect_error([&] { (void)nll_loss(x, x); }, "nll_loss needs integer labels, got f64[5,3]");
  expect_error([&] { (void)gaussian_nll_loss(x, x, y); },
               "gaussian_nll_loss: the variance of f64[5,3] may have size 1 in the last dim or lack it, got f64[3,5]");
  expect_error([&] { (void)margin_ranking_loss(x, x, signs()); },
               "margin_ranking_loss: the target needs the shape [5,3], got f64[5]");
  expect_error([&] { (void)cosine_embedding_loss(x, x, x); },
               "cosine_embedding_loss: the target needs the shape [5], got f64[5,3]");
  expect_error([&] { (void)cosine_embedding_loss(x, x, signs(), {.margin = 2}); },
               "cosine_embedding_loss: the margin must be in [-1, 1], got 2");
  expect_error([&] { (void)triplet_margin_loss(x, x, y); },
               "triplet_margin_loss needs two tensors of the same shape, got f64[5,3] and f64[3,5]");
  expect_error([&] { (void)huber_loss(x, x, 0); }, "huber_loss: delta must be above 0, got 0");
  expect_error([&] { (void)smooth_l1_loss(x, x, -1); }, "smooth_l1_loss: beta must not be negative, got -1");
}

}  // namespace
}  // namespace tessera::nn

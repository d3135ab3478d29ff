// SPDX-License-Identifier: Apache-2.0
// Losses equal their definitions, computed here element by element, and their gradients equal finite differences.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "frontend/on_ranks.h"
#include "nn/check_gradients.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/attention.h"
#include "tessera/nn/losses.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kRows = 5, kClasses = 7;
const std::vector<std::int32_t> kLabels{3, 0, -1, 6, 3};

double at(const std::vector<double>& x, std::int64_t row, std::int64_t column) {
  return x[static_cast<std::size_t>(row * kClasses + column)];
}
std::vector<double> log_softmax_of(const std::vector<double>& x) {
  std::vector<double> out(x.size());
  for (std::int64_t r = 0; r < kRows; ++r) {
    double total = 0;
    for (std::int64_t c = 0; c < kClasses; ++c) total += std::exp(at(x, r, c));
    for (std::int64_t c = 0; c < kClasses; ++c)
      out[static_cast<std::size_t>(r * kClasses + c)] = at(x, r, c) - std::log(total);
  }
  return out;
}
Tensor labels() { return Tensor::from<std::int32_t>({kRows}, kLabels); }
Tensor weights() { return Tensor::from<double>({kClasses}, {1, 0.5, 2, 3, 0.25, 1, 4}); }

struct Expected {
  std::vector<double> losses;
  double divisor = 0;
};
Expected cross_entropy_by_hand(const std::vector<double>& logits, double smoothing, bool weighted) {
  const auto log_p = log_softmax_of(logits);
  const auto w = weighted ? weights().to_vector<double>() : std::vector<double>(kClasses, 1.0);
  Expected out;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto label = kLabels[static_cast<std::size_t>(r)];
    if (label == -1) {
      out.losses.push_back(0);
      continue;
    }
    const auto l = static_cast<std::size_t>(label);
    double smooth = 0;
    for (std::int64_t c = 0; c < kClasses; ++c) smooth -= w[static_cast<std::size_t>(c)] * at(log_p, r, c) / kClasses;
    out.losses.push_back((1 - smoothing) * -w[l] * at(log_p, r, label) + smoothing * smooth);
    out.divisor += w[l];
  }
  return out;
}

class CrossEntropy : public ::testing::TestWithParam<std::pair<double, bool>> {};

TEST_P(CrossEntropy, EqualsItsDefinitionWithEveryReduction) {
  const FreshRank rank;
  const auto [smoothing, weighted] = GetParam();
  const Tensor logits = numbers({kRows, kClasses});
  const Expected expected = cross_entropy_by_hand(logits.to_vector<double>(), smoothing, weighted);
  const auto options = [&, s = smoothing, w = weighted](LossReduction reduction) {
    return CrossEntropyOptions{-1, s, w ? weights() : Tensor(), reduction};
  };
  const auto each = cross_entropy(logits, labels(), options(LossReduction::kNone)).to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < each.size(); ++i) {
    EXPECT_NEAR(each[i], expected.losses[i], 1e-13);
    total += expected.losses[i];
  }
  EXPECT_NEAR(cross_entropy(logits, labels(), options(LossReduction::kSum)).item(), total, 1e-13);
  EXPECT_NEAR(cross_entropy(logits, labels(), options(LossReduction::kMean)).item(), total / expected.divisor, 1e-13);
  expect_gradients([&] { return cross_entropy(logits, labels(), options(LossReduction::kMean)); }, {logits});
}

INSTANTIATE_TEST_SUITE_P(Forms, CrossEntropy,
                         ::testing::Values(std::pair{0.0, false}, std::pair{0.0, true}, std::pair{0.3, false},
                                           std::pair{0.3, true}, std::pair{1.0, false}));

// The loss of the training programs. The sum of -log p over all classes is not computed by itself.
TEST(CrossEntropyParts, ASmoothedLossIsAMixtureOfThatOfTheLabelAndTheMeanOfAllClasses) {
  const FreshRank rank;
  const Tensor logits = numbers({kRows, kClasses});
  for (const double smoothing : {0.0, 0.1, 0.75, 1.0}) {
    const Expected expected = cross_entropy_by_hand(logits.to_vector<double>(), smoothing, false);
    double total = 0;
    for (const double loss : expected.losses) total += loss;
    const CrossEntropyParts parts = cross_entropy_parts(logits, labels(), -1, smoothing);
    EXPECT_NEAR(parts.sum.item(), total, 1e-12) << smoothing;
    EXPECT_EQ(parts.count.item(), expected.divisor) << smoothing;
  }
  expect_gradients([&] { return cross_entropy_parts(logits, labels(), -1, 0.3).sum; }, {logits});
}

TEST(CrossEntropyParts, TheSmoothingIsAPartOfAWhole) {
  const FreshRank rank;
  for (const double smoothing : {-0.1, 1.5}) {
    std::string text = "no error";
    try {
      (void)cross_entropy_parts(numbers({2, 3}), Tensor::full(Type::array(DType::kS32, {2}), 0), -100, smoothing);
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_NE(text.find(fmt::format("label_smoothing must be in [0, 1], got {}", smoothing)), std::string::npos)
        << text;
  }
}

TEST(CrossEntropy, ProbabilitiesOfOneClassGiveTheLossOfTheLabel) {
  const FreshRank rank;
  const Tensor logits = numbers({kRows, kClasses});
  std::vector<double> p(kRows * kClasses, 0.0);
  for (std::int64_t r = 0; r < kRows; ++r) p[static_cast<std::size_t>(r * kClasses + (r * 3) % kClasses)] = 1;
  const Tensor probabilities = Tensor::from<double>({kRows, kClasses}, p);
  const Tensor same = Tensor::from<std::int32_t>({kRows}, {0, 3, 6, 2, 5});
  for (const double smoothing : {0.0, 0.2})
    EXPECT_NEAR(cross_entropy(logits, probabilities, {.label_smoothing = smoothing}).item(),
                cross_entropy(logits, same, {.label_smoothing = smoothing}).item(), 1e-13);
}

TEST(CrossEntropy, IsZeroIfAllLabelsAreIgnored) {
  const FreshRank rank;
  const Tensor none = Tensor::from<std::int32_t>({2}, {-100, -100});
  EXPECT_EQ(cross_entropy(numbers({2, 3}), none, {.label_smoothing = 0.1}).item(), 0);
}

TEST(CrossEntropy, ErrorsNameTheShapes) {
  const FreshRank rank;
  const auto message = [](const CrossEntropyOptions& options, const Dims& label_dims) {
    try {
      (void)cross_entropy(numbers({2, 3}), Tensor::full(Type::array(DType::kS32, label_dims), 0), options);
    } catch (const Error& error) {
      return std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({.label_smoothing = 1.5}, {2}), "cross_entropy: label_smoothing must be in [0, 1], got 1.5");
  EXPECT_EQ(message({.label_smoothing = 0.5}, {3}), "cross_entropy: logits f64[2,3] need labels [2], got s32[3]");
  EXPECT_EQ(message({.weight = numbers({2})}, {2}),
            "cross_entropy: the weight needs one number for each of 3 classes, got f64[2]");
}

// Each loss of two tensors with its definition for one element.
struct PairLoss {
  const char* name;
  Tensor (*loss)(const Tensor&, const Tensor&, LossReduction);
  double (*element)(double x, double y);
  bool of_probabilities = false;
};
void PrintTo(const PairLoss& loss, std::ostream* out) { *out << loss.name; }

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

const PairLoss kPairLosses[] = {
    {"mse", [](const Tensor& x, const Tensor& y, LossReduction reduction) { return mse_loss(x, y, reduction); },
     [](double x, double y) { return (x - y) * (x - y); }},
    {"l1", [](const Tensor& x, const Tensor& y, LossReduction reduction) { return l1_loss(x, y, reduction); },
     [](double x, double y) { return std::fabs(x - y); }},
    {"smooth_l1",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) { return smooth_l1_loss(x, y, 0.5, reduction); },
     [](double x, double y) {
       const double d = std::fabs(x - y);
       return d < 0.5 ? d * d : d - 0.25;
     }},
    {"huber",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) { return huber_loss(x, y, 0.5, reduction); },
     [](double x, double y) {
       const double d = std::fabs(x - y);
       return d < 0.5 ? d * d / 2 : 0.5 * (d - 0.25);
     }},
    {"poisson",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) {
       return poisson_nll_loss(x, y, {.reduction = reduction});
     },
     [](double x, double y) { return std::exp(x) - y * x; }},
    {"poisson_of_rates",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) {
       return poisson_nll_loss(x, y, {.log_input = false, .epsilon = 0.01, .reduction = reduction});
     },
     [](double x, double y) { return x - y * std::log(x + 0.01); }, true},
    {"bce",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) { return binary_cross_entropy(x, y, reduction); },
     [](double p, double y) { return -(y * std::log(p) + (1 - y) * std::log(1 - p)); }, true},
    {"bce_with_logits",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) {
       return binary_cross_entropy_with_logits(x, y, {.reduction = reduction});
     },
     [](double x, double y) { return (1 - y) * x + softplus(-x); }},
    {"bce_with_pos_weight",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) {
       return binary_cross_entropy_with_logits(x, y,
                                               {.pos_weight = Tensor::from<double>({1}, {3}), .reduction = reduction});
     },
     [](double x, double y) { return (1 - y) * softplus(x) + 3 * y * softplus(-x); }},
    {"kl_div",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) { return kl_div(x, y, {.reduction = reduction}); },
     [](double x, double y) { return y * (std::log(y) - x); }, true},
    {"kl_div_of_logarithms",
     [](const Tensor& x, const Tensor& y, LossReduction reduction) {
       return kl_div(x, y, {.log_target = true, .reduction = reduction});
     },
     [](double x, double y) { return std::exp(y) * (y - x); }},
};

class PairLosses : public ::testing::TestWithParam<PairLoss> {};

TEST_P(PairLosses, EqualTheirDefinitions) {
  const FreshRank rank;
  const PairLoss& tested = GetParam();
  Tensor x = numbers({5, 3}), y = numbers({5, 3}, 4);
  if (tested.of_probabilities) {
    const auto into_unit = [](const Tensor& t) { return t * 0.4 + 0.5; };
    x = Tensor::from_host(into_unit(x).to_host());
    y = Tensor::from_host(into_unit(y).to_host());
  }
  const auto a = x.to_vector<double>(), b = y.to_vector<double>();
  const auto each = tested.loss(x, y, LossReduction::kNone).to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(each[i], tested.element(a[i], b[i]), 1e-13);
    total += tested.element(a[i], b[i]);
  }
  EXPECT_NEAR(tested.loss(x, y, LossReduction::kSum).item(), total, 1e-12);
  EXPECT_NEAR(tested.loss(x, y, LossReduction::kMean).item(), total / 15, 1e-13);
  EXPECT_NEAR(tested.loss(x, y, LossReduction::kBatchMean).item(), total / 5, 1e-12);
  expect_gradients([&] { return tested.loss(x, y, LossReduction::kMean); }, {x, y});
}

INSTANTIATE_TEST_SUITE_P(All, PairLosses, ::testing::ValuesIn(kPairLosses),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PairLosses, TensorsOfOtherShapesAreAnError) {
  const FreshRank rank;
  EXPECT_THROW((void)mse_loss(numbers({2, 3}), numbers({3})), Error);
}

TEST(BinaryCrossEntropy, CertainPredictionsHaveFiniteLossesAndGradients) {
  const FreshRank rank;
  Tensor logits = Tensor::from<float>({4}, {-300, 300, -300, 0});
  logits.set_requires_grad();
  const Tensor y = Tensor::from<float>({4}, {0, 1, 1, 1});
  const Tensor loss = binary_cross_entropy_with_logits(logits, y, {.reduction = LossReduction::kSum});
  loss.backward();
  mark_step();
  EXPECT_NEAR(loss.item(), 300 + std::log(2.0), 1e-4);
  EXPECT_EQ(logits.grad().to_vector<float>(), (std::vector<float>{0, 0, -1, -0.5}));
  const Tensor p = Tensor::from<float>({2}, {0, 1});
  EXPECT_EQ(binary_cross_entropy(p, Tensor::from<float>({2}, {1, 1}), LossReduction::kSum).item(), 100);
}

// The numbers are those of PyTorch 2.
TEST(BinaryCrossEntropy, ProbabilitiesOf0And1HaveTheGradientsOfPyTorch) {
  const FreshRank rank;
  Tensor p = Tensor::from<double>({5}, {0, 0, 1, 1, 0.25});
  p.set_requires_grad();
  const Tensor losses = binary_cross_entropy(p, Tensor::from<double>({5}, {0, 1, 0, 1, 1}), LossReduction::kNone);
  sum(losses).backward();
  expect_near(losses.to_vector<double>(), {0, 100, 100, 0, 1.3862943611198906});
  const auto slopes = p.grad().to_vector<double>();
  EXPECT_EQ(slopes[0], 0);
  EXPECT_NEAR(slopes[1], -1e12, 1);
  EXPECT_NEAR(slopes[2], 1e12, 1);
  EXPECT_EQ(slopes[3], 0);
  EXPECT_NEAR(slopes[4], -4, 1e-12);
}

TEST(KlDiv, ElementsWithoutProbabilityDoNotCount) {
  const FreshRank rank;
  const Tensor p = Tensor::from<double>({3}, {0, 1, 0});
  EXPECT_NEAR(kl_div(numbers({3}), p, {.reduction = LossReduction::kSum}).item(), -numbers({3}).to_vector<double>()[1],
              1e-15);
}

TEST(Contrastive, EqualsItsDefinitionInBothDirections) {
  const FreshRank rank;
  const Tensor q = numbers({3, 4}), k = numbers({3, 4}, 5);
  const auto a = q.to_vector<double>(), b = k.to_vector<double>();
  double cosines[3][3];
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      double ab = 0, aa = 0, bb = 0;
      for (std::size_t d = 0; d < 4; ++d) {
        ab += a[i * 4 + d] * b[j * 4 + d];
        aa += a[i * 4 + d] * a[i * 4 + d];
        bb += b[j * 4 + d] * b[j * 4 + d];
      }
      cosines[i][j] = ab / std::sqrt(aa * bb) / 0.5;
    }
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    double row = 0, column = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      row += std::exp(cosines[i][j]);
      column += std::exp(cosines[j][i]);
    }
    forward += (std::log(row) - cosines[i][i]) / 3;
    backward += (std::log(column) - cosines[i][i]) / 3;
  }
  EXPECT_NEAR(contrastive_loss(q, k, {.temperature = 0.5}).item(), forward, 1e-12);
  EXPECT_NEAR(contrastive_loss(q, k, {.temperature = 0.5, .symmetric = true}).item(), (forward + backward) / 2, 1e-12);
  expect_gradients([&] { return contrastive_loss(q, k, {.temperature = 0.5, .symmetric = true}); }, {q, k});
}

TEST(Losses, ErrorsNameTheLineOfTheCall) {
  const FreshRank rank;
  const auto text_of = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const Tensor x = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor y = Tensor::from<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  for (const std::string& text : {text_of([&] { cross_entropy(x, y); }), text_of([&] { mse_loss(x, y); }),
                                  text_of([&] { contrastive_loss(x, y); }), text_of([&] { attend(x, y, y); })})
    EXPECT_NE(text.find("\n  at   losses_test.cpp:"), std::string::npos) << text;
}

// sum(loss * mask) / sum(mask) over the rows of all ranks. Rank 0 has no label that counts, and the rows are uneven.
TEST(CrossEntropy, TheMeanIsOverTheLabelsOfAllRanks) {
  constexpr std::int64_t kAllRows = 7;
  const std::vector<std::int32_t> labels{-100, -100, -100, -100, 2, -100, 6};
  const auto train = [&](const char* text) {
    const Mesh mesh = Mesh::parse(text);
    std::vector<double> values;
    for (std::int64_t i = 0; i < kAllRows * kClasses; ++i) values.push_back(std::sin(static_cast<double>(i * i)));
    Tensor logits = Tensor::from<double>({kAllRows, kClasses}, values);
    logits.set_requires_grad();
    const Tensor targets = Tensor::from<std::int32_t>({kAllRows}, labels);
    mark_sharding(logits, mesh, {"data", {}});
    mark_sharding(targets, mesh, {"data"});
    const Tensor loss = cross_entropy(logits, targets);
    loss.backward();
    std::vector<double> out = logits.grad().to_vector<double>();
    out.push_back(loss.item());
    return out;
  };
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = train("data=1");
  }
  double counted = 0;  // a row of the gradient sums to 0; those of ignored rows are 0
  for (std::int64_t c = 0; c < kClasses; ++c)
    counted += std::fabs(expected[static_cast<std::size_t>(4 * kClasses + c)]);
  EXPECT_GT(counted, 0.1);
  EXPECT_EQ(expected[0], 0);
  for (const char* mesh : {"data=2", "data=3", "data=4"})
    on_ranks(static_cast<int>(Mesh::parse(mesh).device_count()), [&](int) {
      const std::vector<double> got = train(mesh);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14) << mesh << " " << i;
    });
}

}  // namespace
}  // namespace tessera::nn

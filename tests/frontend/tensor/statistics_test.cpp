// SPDX-License-Identifier: Apache-2.0
// Reductions, cumulative functions, order statistics, searches and distances: values against loops, ties, NaN, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::numbers;
using testing::Numbers;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kEndless = std::numeric_limits<double>::infinity();

// Numbers with many ties.
Numbers tied_numbers(std::size_t count) {
  Numbers out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<double>((7 * i + i * i / 3) % 11) / 4 - 1);
  return out;
}
Tensor line_of(const Numbers& values) { return Tensor::from(values, {static_cast<std::int64_t>(values.size())}); }

Numbers slope_of(Tensor x, const std::function<Tensor(const Tensor&)>& f) {
  x.set_requires_grad();
  return numbers(gradients(sum(f(x)), {x})[0]);
}

// ---- reductions ---------------------------------------------------------------------------------------------------------

TEST(Statistics, NaNElementsDoNotCount) {
  const FreshRank rank;
  const Tensor x = Tensor::from({1.0, kMissing, 4.0, kMissing, kMissing, kMissing}, {2, 3});
  EXPECT_EQ(numbers(nansum(x, 1)), (Numbers{5, 0}));
  const Numbers means = numbers(x.nanmean(1));
  EXPECT_EQ(means[0], 2.5);
  EXPECT_TRUE(std::isnan(means[1]));
  EXPECT_EQ(nansum(arange(4)).item(), 6);
  EXPECT_EQ(nansum(arange(4) > 1).item(), 2);
  EXPECT_EQ(numbers(nanmean(Tensor::from({60000.0, 60000.0, kMissing}, {3}).to(kF16))), Numbers{60000});
  EXPECT_EQ(slope_of(x, [](const Tensor& v) { return nansum(v); }), (Numbers{1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(error_of([] { nanmean(arange(3)); }),
            "nanmean: the mean of s32[3] would be truncated to an integer; convert it with .to() first");
}

TEST(Statistics, ExtremaAndCountsTakeSeveralDims) {
  const FreshRank rank;
  const Tensor x = Tensor::from({3.0, 0.0, -1.0, 3.0, 0.0, 2.0}, {2, 3});
  EXPECT_EQ(numbers(amax(x, 1)), (Numbers{3, 3}));
  EXPECT_EQ(numbers(x.amin({0, 1})), Numbers{-1});
  EXPECT_EQ(numbers(count_nonzero(x, 0)), (Numbers{2, 0, 2}));
  EXPECT_EQ(x.count_nonzero().dtype(), kS32);
  EXPECT_EQ(numbers(count_nonzero(x > 0.0, {.dims = {1}, .keep_dims = true})), (Numbers{1, 2}));
  EXPECT_EQ(slope_of(x, [](const Tensor& v) { return v.amax(); }), (Numbers{0.5, 0, 0, 0.5, 0, 0}));
}

// The mean of three times 0.1 is not 0.1 in f64.
TEST(StandardDeviation, OfEqualElementsIs0WithoutAGradient) {
  const FreshRank rank;
  for (const double element : {2.0, 0.1, 1e8 + 0.3, -7e-300}) {
    const Tensor x = line_of({element, element, element});
    EXPECT_EQ(numbers(x.std()), (Numbers{0})) << element;
    EXPECT_EQ(slope_of(x, [](const Tensor& v) { return v.std(); }), (Numbers{0, 0, 0})) << element;
  }
  const Numbers slopes = slope_of(line_of({1, 4}), [](const Tensor& v) { return v.std(); });
  EXPECT_NEAR(slopes[0], -std::sqrt(0.5), 1e-15);
  EXPECT_NEAR(slopes[1], std::sqrt(0.5), 1e-15);
  EXPECT_TRUE(std::isnan(numbers(line_of({3}).std()).front()));  // no degree of freedom
}

struct NormCase {
  double p;
  Numbers x;
  double norm;
  Numbers slopes;
};

// The numbers are those of torch.linalg.vector_norm.
TEST(Norm, EveryOrderHasTheValueAndTheGradientOfPyTorch) {
  const FreshRank rank;
  const NormCase cases[] = {
      {-1, {3, -4, 12}, 1.5, {0.25, -0.140625, 0.015625}},
      {-2, {3, -4, 12}, 2.3533936216582085, {0.4827474095709146, -0.2036590634127296, 0.007542928274545541}},
      {-0.5, {3, -4, 12}, 0.5358983848622455, {0.07549910270124748, -0.049038105676657985, 0.009437387837655934}},
      {-1, {3, 0, -4}, 0, {0, 0, 0}},
      {-0.5, {0, 0}, 0, {0, 0}},
      {-2, {kEndless, 2}, 2, {0, 1}},
      {0.5, {3, 0, -4}, 13.928203230275509, {2.154700538379252, 0, -1.8660254037844386}},
      {0.5, {0, 0}, 0, {0, 0}},
      {1, {3, 0, -4}, 7, {1, 0, -1}},
      {1.5, {3, 0, -4}, 5.584250376480029, {0.7329564758289748, 0, -0.8463452372482761}},
      {2, {3, 0, -4}, 5, {0.6, 0, -0.8}},
      {3, {3, 0, -4}, 4.497941445275415, {0.4448513517305356, 0, -0.7908468475209521}},
      {kEndless, {3, 0, -4}, 4, {0, 0, -1}},
      {kEndless, {0, 0}, 0, {0, 0}},
      {-kEndless, {3, -4, 12}, 3, {1, 0, 0}},
      {-kEndless, {3, 0, -4}, 0, {0, 0, 0}}};
  for (const NormCase& one : cases) {
    EXPECT_NEAR(norm(line_of(one.x), {.p = one.p}).item(), one.norm, 1e-13) << one.p;
    const Numbers slopes = slope_of(line_of(one.x), [&](const Tensor& x) { return norm(x, {.p = one.p}); });
    ASSERT_EQ(slopes.size(), one.slopes.size());
    for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_NEAR(slopes[i], one.slopes[i], 1e-13) << one.p << " " << i;
  }
  EXPECT_EQ(norm(line_of({3, 0, -4}), {.p = 0}).item(), 2);
  EXPECT_TRUE(std::isnan(norm(line_of({kMissing, 0}), {.p = -1}).item()));
  EXPECT_EQ(numbers(norm(Tensor::from({1.0, 1.0, 0.0, 5.0}, {2, 2}), {.p = -1, .dims = {1}})), (Numbers{0.5, 0}));
  EXPECT_EQ(numbers(normalize(Tensor::from({1.0, 1.0}, {1, 2}), {.p = -1})), (Numbers{2, 2}));
  EXPECT_EQ(error_of([] { norm(zeros({0, 2}), {.p = -1}); }), "norm: dim 0 of f32[0,2] has no elements");
  EXPECT_EQ(error_of([] { norm(zeros({2}), {.p = kMissing}); }), "norm: the order p is not a number");
}

// ---- cumulative functions -----------------------------------------------------------------------------------------------

TEST(Cumulative, ExtremaAndTheirPositionsEqualALoop) {
  const FreshRank rank;
  for (const std::size_t n : {1U, 2U, 5U, 13U}) {
    const Numbers rows = tied_numbers(3 * n);
    const Tensor x = Tensor::from(rows, {3, static_cast<std::int64_t>(n)});
    Numbers values, positions;
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t i = 0, best = 0; i < n; ++i) {
        if (rows[row * n + i] >= rows[row * n + best]) best = i;
        values.push_back(rows[row * n + best]);
        positions.push_back(static_cast<double>(best));
      }
    EXPECT_EQ(numbers(cummax(x, 1).values), values);
    EXPECT_EQ(numbers(x.cummax(-1).indices), positions);
    EXPECT_EQ(numbers((-x).cummin(1).values), numbers(-line_of(values)));
    EXPECT_EQ(numbers(cummin(-x, 1).indices), positions);
    EXPECT_EQ(numbers(cummax(x.t(), 0).indices.t()), positions);
  }
}

TEST(Cumulative, TheLastOfEqualExtremaHasTheGradientAndNaNStays) {
  const FreshRank rank;
  const Tensor x = line_of({2, 1, 2, 2, 0});
  EXPECT_EQ(numbers(cummax(x, 0).indices), (Numbers{0, 0, 2, 3, 3}));
  EXPECT_EQ(slope_of(x, [](const Tensor& v) { return cummax(v, 0).values; }), (Numbers{2, 0, 1, 2, 0}));
  for (const auto& found :
       {cummax(line_of({1, kMissing, 5, kMissing, 2}), 0), cummin(line_of({1, kMissing, -5, kMissing, 2}), 0)}) {
    EXPECT_EQ(numbers(found.indices), (Numbers{0, 1, 1, 3, 3}));
    const Numbers values = numbers(found.values);
    EXPECT_EQ(values[0], 1);
    EXPECT_TRUE(std::all_of(values.begin() + 1, values.end(), [](double value) { return std::isnan(value); }));
  }
  EXPECT_EQ(numbers(cummin(Tensor::from({3, 5, -2, 9}, {4}), 0).values), (Numbers{3, 3, -2, -2}));
  EXPECT_EQ(numbers(cummax(line_of({-kEndless, -kEndless}), 0).indices), (Numbers{0, 1}));
}

TEST(Cumulative, LogarithmsOfSumsDoNotOverflow) {
  const FreshRank rank;
  const Numbers values{1000, 999, 1001.5, -40, 1000};
  const Numbers got = numbers(logcumsumexp(line_of(values), 0));
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    total += std::exp(values[i] - 1000);
    EXPECT_NEAR(got[i], 1000 + std::log(total), 1e-12);
  }
  const Tensor x = line_of({-kEndless, -kEndless, 2, -kEndless});
  EXPECT_EQ(numbers(logcumsumexp(x, 0)), (Numbers{-kEndless, -kEndless, 2, 2}));
  EXPECT_EQ(slope_of(x, [](const Tensor& v) { return logcumsumexp(v, 0).slice(0, 2, 4); }), (Numbers{0, 0, 2, 0}));
  const Tensor zeros_of_16_bits = zeros({300}, kBF16);
  EXPECT_EQ(numbers(logcumsumexp(zeros_of_16_bits, 0)).back(), numbers(full({1}, std::log(300), kBF16))[0]);
}

// ---- median and quantiles -----------------------------------------------------------------------------------------------

TEST(Median, IsTheLowerOneOfTwo) {
  const FreshRank rank;
  EXPECT_EQ(median(line_of({4, 1, 3, 2})).item(), 2);
  const SortResult rows = median(Tensor::from({5.0, 1.0, 3.0, 7.0, 9.0, 8.0}, {2, 3}), 1);
  EXPECT_EQ(numbers(rows.values), (Numbers{3, 8}));
  EXPECT_EQ(numbers(rows.indices), (Numbers{2, 2}));
  EXPECT_EQ(median(Tensor::from({9, -3, 4, 4}, {2, 2})).item(), 4);
  const SortResult kept = zeros({2, 3, 5}).median({.dim = 1, .keep_dims = true});
  EXPECT_EQ(kept.values.shape(), (Shape{2, 1, 5}));
  EXPECT_EQ(kept.indices.type().str(), "s32[2,1,5]");
  EXPECT_EQ(error_of([] { median(zeros({0})); }), "median: dim 0 of f32[0] has no elements");
}

TEST(Median, EqualElementsShareTheGradientOfTheMedianOfAllElements) {
  const FreshRank rank;
  const Tensor x = line_of({2, 7, 2, 1, 2, 3});
  EXPECT_EQ(slope_of(x, [](const Tensor& v) { return median(v) * 6.0; }), (Numbers{2, 0, 2, 0, 2, 0}));
  EXPECT_EQ(slope_of(x, [](const Tensor& v) { return median(v, 0).values; }), (Numbers{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(median(line_of({-kEndless, 5, -kEndless})).item(), -kEndless);
}

TEST(Median, IsNaNIfAnElementIs) {
  const FreshRank rank;
  const Tensor x = Tensor::from({1.0, kMissing, 2.0, 3.0, 1.0, 2.0}, {2, 3});
  EXPECT_TRUE(std::isnan(median(x).item()));
  const SortResult rows = median(x, 1);
  EXPECT_TRUE(std::isnan(numbers(rows.values)[0]));
  EXPECT_EQ(numbers(rows.values)[1], 2);
  EXPECT_EQ(numbers(rows.indices), (Numbers{1, 2}));
  const Numbers halves = numbers(quantile(x, 0.5, {.dim = 1}));
  EXPECT_TRUE(std::isnan(halves[0]));
  EXPECT_EQ(halves[1], 2);
}

TEST(Quantile, EqualsALoopForEveryMethod) {
  const FreshRank rank;
  Numbers values = tied_numbers(17);
  const Tensor x = line_of(values);
  std::sort(values.begin(), values.end());
  for (const double q : {0.0, 0.03125, 0.3, 0.5, 0.71875, 1.0}) {
    const double place = q * 16;
    const auto below = static_cast<std::size_t>(place), above = static_cast<std::size_t>(std::ceil(place));
    const double low = values[below], high = values[above], share = place - std::floor(place);
    const auto by = [&](QuantileMethod method) { return quantile(x, q, {.method = method}).item(); };
    EXPECT_NEAR(by(QuantileMethod::kLinear), low + share * (high - low), 1e-15);
    EXPECT_EQ(by(QuantileMethod::kLower), low);
    EXPECT_EQ(by(QuantileMethod::kHigher), high);
    EXPECT_EQ(by(QuantileMethod::kMidpoint), (low + high) / 2);
    EXPECT_EQ(by(QuantileMethod::kNearest), values[static_cast<std::size_t>(std::nearbyint(place))]);
  }
  EXPECT_EQ(quantile(x, {0.25, 0.5, 1}).shape(), (Shape{3}));
  EXPECT_EQ(quantile(zeros({2, 3}), 0.5, {.keep_dims = true}).shape(), (Shape{1, 1}));
  EXPECT_EQ(zeros({2, 3}).quantile({0, 0.5}, {.dim = 1, .keep_dims = true}).shape(), (Shape{2, 2, 1}));
  EXPECT_EQ(quantile(line_of({1, 2, 4}).to(kBF16), 0.75).item(), 3);
  EXPECT_EQ(quantile(line_of({-kEndless, 2, kEndless}), 0.5).item(), 2);
  EXPECT_EQ(error_of([&] { quantile(x, 1.5); }), "quantile: q must be in [0, 1], got 1.5");
  EXPECT_EQ(error_of([] { quantile(arange(3), 0.5); }),
            "quantile: needs floats, got s32[3]; convert it with .to() first");
}

// ---- search -------------------------------------------------------------------------------------------------------------

TEST(Search, FindsTheSidesOfEqualElements) {
  const FreshRank rank;
  for (const std::size_t n : {0U, 1U, 2U, 3U, 7U, 8U, 9U, 101U}) {
    Numbers line = tied_numbers(n);
    std::sort(line.begin(), line.end());
    Numbers values = tied_numbers(23), first, last;
    values.push_back(-9);
    values.push_back(9);
    for (const double value : values) {
      first.push_back(static_cast<double>(std::lower_bound(line.begin(), line.end(), value) - line.begin()));
      last.push_back(static_cast<double>(std::upper_bound(line.begin(), line.end(), value) - line.begin()));
    }
    const Tensor v = Tensor::from(values, {5, 5});
    EXPECT_EQ(numbers(searchsorted(line_of(line), v)), first) << n;
    EXPECT_EQ(numbers(searchsorted(line_of(line), v, {.right = true})), last) << n;
    EXPECT_EQ(numbers(bucketize(v, line_of(line))), first) << n;
  }
}

TEST(Search, LinesAreSearchedForTheValuesOfTheirOwnLine) {
  const FreshRank rank;
  const Tensor lines = Tensor::from({1, 3, 5, 2, 4, 6}, {2, 3});
  EXPECT_EQ(numbers(searchsorted(lines, Tensor::from({3, 9, 3, 9}, {2, 2}))), (Numbers{1, 3, 1, 3}));
  EXPECT_EQ(numbers(searchsorted(lines, Tensor::from({3, 9, 4, 1}, {2, 2}), {.right = true})), (Numbers{2, 3, 2, 0}));
  const Tensor line = line_of({1, 2});
  EXPECT_EQ(searchsorted(line, 1.5).item(), 1);
  EXPECT_EQ(searchsorted(line, 1.5).type().str(), "s32[]");
  EXPECT_EQ(numbers(bucketize(line_of({kMissing, -kEndless, kEndless}), line)), (Numbers{2, 0, 2}));
  EXPECT_EQ(error_of([&] { searchsorted(lines, arange(2)); }),
            "searchsorted: s32[2,3] needs values of the same sizes except the last one, got s32[2]");
  EXPECT_EQ(error_of([&] { searchsorted(line, arange(2)); }),
            "searchsorted: operands have element types f64 and s32; convert one with .to()");
  EXPECT_EQ(error_of([&] { bucketize(line, lines); }), "bucketize: the boundaries must be a vector");
}

// ---- distances, covariance ----------------------------------------------------------------------------------------------

TEST(Distances, EqualALoop) {
  const FreshRank rank;
  const Numbers a = tied_numbers(15), b = tied_numbers(6);
  const Tensor x = Tensor::from(a, {5, 3}), y = Tensor::from(b, {2, 3});
  for (const double p : {0.0, 1.0, 2.0, 3.0, kEndless}) {
    const Numbers got = numbers(cdist(x, y, p));
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 2; ++j) {
        double total = 0;
        for (std::size_t k = 0; k < 3; ++k) {
          const double difference = std::fabs(a[3 * i + k] - b[3 * j + k]);
          total = std::isinf(p) ? std::max(total, difference)
                                : total + (p == 0 ? static_cast<double>(difference != 0) : std::pow(difference, p));
        }
        EXPECT_NEAR(got[2 * i + j], std::isinf(p) || p == 0 ? total : std::pow(total, 1 / p), 1e-14) << p;
      }
  }
  EXPECT_NEAR(pairwise_distance(line_of({1, 2}), line_of({4, 6}), {.epsilon = 0}).item(), 5, 1e-15);
  EXPECT_EQ(pairwise_distance(x, y[0], {.keep_dims = true}).shape(), (Shape{5, 1}));
  EXPECT_EQ(slope_of(y, [](const Tensor& v) { return cdist(v, v.detach()).diagonal(); }), Numbers(6, 0));
  EXPECT_EQ(error_of([&] {
              cdist(x, zeros({2, 4}, kF64));
            }),
            "cdist: needs [.., p, m] and [.., r, m], got f64[5,3] and f64[2,4]");
  EXPECT_EQ(error_of([&] { cdist(x, y, -1); }), "cdist: the order p must not be negative, got -1");
  EXPECT_EQ(error_of([&] { cdist(x, y, -kEndless); }), "cdist: the order p must not be negative, got -inf");
}

TEST(Distances, NormalizedLinesHaveLengthOneAndZerosStay) {
  const FreshRank rank;
  const Tensor x = Tensor::from({3.0, 4.0, 0.0, 0.0}, {2, 2});
  const Numbers lines = numbers(normalize(x));
  EXPECT_NEAR(lines[0], 0.6, 1e-15);
  EXPECT_NEAR(lines[1], 0.8, 1e-15);
  EXPECT_EQ(lines[2], 0);
  EXPECT_EQ(numbers(normalize(x, {.p = 1, .dim = 0})), (Numbers{1, 1, 0, 0}));
  for (const double d : slope_of(x, [](const Tensor& v) { return normalize(v); })) EXPECT_FALSE(std::isnan(d));
  EXPECT_EQ(numbers(normalize(x.to(kF16)))[2], 0);  // epsilon is 0 in f16
}

// The numbers are those of torch.nn.functional.cosine_similarity.
TEST(Distances, SimilaritiesCompareEachLengthWithEpsilon) {
  const FreshRank rank;
  const Tensor y = Tensor::from({1.0, 2.0, 2.0, 3.0, 4.0, 0.0}, {2, 3});
  const auto expect = [](const Tensor& similarity, const Numbers& expected) {
    const Numbers got = numbers(similarity);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-15);
  };
  expect(cosine_similarity(line_of({3e-6, 4e-6}), line_of({3e-6, 4e-6}), 0), {1});
  expect(cosine_similarity(line_of({3e-10, 4e-10}), line_of({3, 4}), 0), {0.05});
  expect(cosine_similarity(Tensor::from({2.0, 1.0}, {2, 1}), y), {0.9622504486493763, 0.8082903768654762});
  expect(cosine_similarity(line_of({1, 2, 2}), y, 1), {1, 0.7333333333333333});
  const Numbers slopes = slope_of(line_of({0, 0}), [](const Tensor& x) {
    return cosine_similarity(x, line_of({3, 4}), 0);
  });
  EXPECT_NEAR(slopes[0], 6e7, 1e-6);
  EXPECT_NEAR(slopes[1], 8e7, 1e-6);
}

TEST(Distances, CovariancesEqualALoop) {
  const FreshRank rank;
  const Numbers a = tied_numbers(21);
  const Numbers got = numbers(cov(Tensor::from(a, {3, 7})));
  const auto mean_of = [&](std::size_t i) {
    double total = 0;
    for (std::size_t k = 0; k < 7; ++k) total += a[7 * i + k];
    return total / 7;
  };
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      double total = 0;
      for (std::size_t k = 0; k < 7; ++k) total += (a[7 * i + k] - mean_of(i)) * (a[7 * j + k] - mean_of(j));
      EXPECT_NEAR(got[3 * i + j], total / 6, 1e-15);
    }
  const Tensor line = line_of({1, 2, 3, 6});
  EXPECT_NEAR(line.cov().item(), var(line).item(), 1e-14);
  EXPECT_NEAR(cov(line, 0).item(), 3.5, 1e-15);
}

TEST(Members, OnesOfOrderEqualTheFunctions) {
  const FreshRank rank;
  const Tensor x = Tensor::from(tied_numbers(15), {3, 5});
  const std::vector<std::pair<Tensor, Tensor>> pairs{
      {x.sort().values, sort(x).values},
      {x.sort({.dim = 0, .descending = true}).indices, sort(x, {.dim = 0, .descending = true}).indices},
      {x.argsort(), argsort(x)},
      {x.topk(2).indices, topk(x, 2).indices},
      {x.median(), median(x)},
      {x.median(0).values, median(x, 0).values},
      {x.quantile(0.3, {.dim = 0}), quantile(x, 0.3, {.dim = 0})},
      {x.argmax(), argmax(x)},
      {x.argmin({.dim = 1, .keep_dims = true}), argmin(x, {.dim = 1, .keep_dims = true})},
      {x.logcumsumexp(1), logcumsumexp(x, 1)},
      {x.softmin(0), softmin(x, 0)},
      {x.nansum(), nansum(x)},
      {x.cov(), cov(x)}};
  for (std::size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(numbers(pairs[i].first), numbers(pairs[i].second)) << i;
  EXPECT_EQ(numbers(softmin(x, 1)), numbers(softmax(-x, 1)));
}

}  // namespace
}  // namespace tessera

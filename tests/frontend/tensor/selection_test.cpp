// SPDX-License-Identifier: Apache-2.0
// Sorting, indexing, random numbers and bounded functions: values worked out by hand, and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::numbers;
using testing::Numbers;

// ---- order --------------------------------------------------------------------------------------------------------------

TEST(Sorting, IsStableInBothDirections) {
  const FreshRank rank;
  const Tensor x = Tensor::from({2.0, 1.0, 2.0, 3.0, 1.0}, {5});
  EXPECT_EQ(numbers(sort(x).values), (Numbers{1, 1, 2, 2, 3}));
  EXPECT_EQ(numbers(sort(x).indices), (Numbers{1, 4, 0, 2, 3}));
  EXPECT_EQ(numbers(argsort(x, {.descending = true})), (Numbers{3, 0, 2, 1, 4}));
  EXPECT_EQ(argsort(x).dtype(), kS32);
}

TEST(Sorting, PutsNaNLastAndNegativeZeroFirst) {
  const FreshRank rank;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from({nan, 0.0, -0.0, infinity, -infinity}, {5});
  EXPECT_EQ(numbers(argsort(x)), (Numbers{4, 2, 1, 3, 0}));
  EXPECT_EQ(numbers(topk(x, 2).indices), (Numbers{0, 3}));
}

TEST(Sorting, OrdersIntegersOfEverySign) {
  const FreshRank rank;
  EXPECT_EQ(numbers(sort(Tensor::from({3, -1, 2}, {3})).values), (Numbers{-1, 2, 3}));
  const std::vector<std::uint64_t> large{1, ~std::uint64_t{0} >> 1, std::uint64_t{1} << 63, 0};
  EXPECT_EQ(numbers(argsort(Tensor::from(large, {4}))), (Numbers{3, 0, 1, 2}));
  EXPECT_EQ(error_of([] { sort(zeros({2}) > 0.0); }), "sort: pred[2] has no order; convert it with .to() first");
}

TEST(Sorting, LongLinesAreSortedAlongEveryDim) {
  const FreshRank rank;
  std::vector<std::int32_t> values(3 * 1009);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i * 7919 % 3001);
  const Tensor x = Tensor::from(values, {3, 1009});
  const Tensor sorted = sort(x.t(), {.dim = 0}).values;
  EXPECT_EQ(numbers(sorted.t()), numbers(sort(x, {.dim = 1}).values));
  const Numbers rows = numbers(sort(x).values);
  for (int row = 0; row < 3; ++row)
    EXPECT_TRUE(std::is_sorted(rows.begin() + row * 1009, rows.begin() + (row + 1) * 1009));
  EXPECT_EQ(numbers(topk(x, 100).values), numbers(sort(x, {.descending = true}).values[{All, Range(0, 100)}]));
  EXPECT_EQ(numbers(topk(x, 5).indices), numbers(argsort(x, {.descending = true})[{All, Range(0, 5)}]));
}

TEST(Sorting, TopKRefusesMoreElementsThanThereAre) {
  const FreshRank rank;
  EXPECT_EQ(error_of([] { topk(zeros({2, 3}), 4); }), "topk: k=4, but dim -1 of f32[2,3] has 3 elements");
}

// ---- positions ----------------------------------------------------------------------------------------------------------

TEST(Indexing, GatherReadsOneElementForEachPosition) {
  const FreshRank rank;
  const Tensor x = arange(6).reshape({2, 3});
  EXPECT_EQ(numbers(gather(x, 1, Tensor::from({2, 0, 1, 1}, {2, 2}))), (Numbers{2, 0, 4, 4}));
  EXPECT_EQ(numbers(gather(x, 0, Tensor::from({1, 0, 1}, {1, 3}))), (Numbers{3, 1, 5}));
  EXPECT_EQ(numbers(take_along_dim(x, Tensor::from({2}, {1, 1}), 1)), (Numbers{2, 5}));
  EXPECT_EQ(numbers(index_select(x, 1, Tensor::from({2, 2, 0}, {3}))), (Numbers{2, 2, 0, 5, 5, 3}));
  EXPECT_EQ(numbers(gather(x, 1, Tensor::from({-5, 9}, {2, 1}))), (Numbers{0, 5}));  // moved to the ends
  EXPECT_EQ(error_of([&] { gather(x, 1, ones({2, 2})); }), "gather: the index must be integers, got f32[2,2]");
  EXPECT_EQ(error_of([&] {
              gather(x, 1, zeros({3, 2}, kS32));
            }),
            "gather: dim 0 of the index s32[3,2] is larger than that of s32[2,3]");
}

TEST(Indexing, TheLastOfSeveralSourcesIsWrittenAndHasTheGradient) {
  const FreshRank rank;
  Tensor x = ones({4}, kF64).detach();
  Tensor source = Tensor::from({5.0, 6.0, 7.0, 8.0}, {4});
  source.set_requires_grad();
  const Tensor y = scatter(x, 0, Tensor::from({2, 0, 2, 9}, {4}), source);
  sum(y).backward();
  EXPECT_EQ(numbers(y), (Numbers{6, 1, 7, 1}));  // position 9 is ignored
  EXPECT_EQ(numbers(source.grad()), (Numbers{0, 1, 1, 0}));
  EXPECT_EQ(numbers(scatter_add(x, 0, Tensor::from({2, 0, 2, -1}, {4}), source)), (Numbers{7, 1, 13, 1}));
  EXPECT_EQ(error_of([&] { scatter(x, 0, zeros({5}, kS32), source); }),
            "scatter: dim 0 of the index s32[5] is larger than that of the source f64[4]");
}

TEST(Indexing, OneHotGivesZerosForIdsOutOfRange) {
  const FreshRank rank;
  EXPECT_EQ(numbers(one_hot(Tensor::from({1, -1, 3}, {3}), 3)), (Numbers{0, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(one_hot(Tensor::from({1, 2}, {2}), 3, kBF16).type().str(), "bf16[2,3]");
}

TEST(Indexing, CosineSimilarityOfZerosIsZero) {
  const FreshRank rank;
  const Tensor x = Tensor::from({3.0, 4.0, 0.0, 0.0}, {2, 2});
  const Tensor y = Tensor::from({4.0, 3.0, 1.0, 0.0}, {2, 2});
  const Numbers similarity = numbers(cosine_similarity(x, y));
  EXPECT_NEAR(similarity[0], 0.96, 1e-15);
  EXPECT_EQ(similarity[1], 0);
}

// ---- random numbers -----------------------------------------------------------------------------------------------------

TEST(Random, AKeyGivesTheSameNumbersAndOtherKeysGiveOthers) {
  const FreshRank rank;
  const Key key(7);
  const auto drawn = [](const Key& k) {
    const Tensor x = rand(k, {50});
    mark_step();
    return numbers(x);
  };
  const Numbers first = drawn(key);
  EXPECT_EQ(drawn(key), first);
  EXPECT_EQ(drawn(Key(7)), first);
  std::set<Numbers> different{first};
  for (const Key& other : {Key(8), key.fold_in(0), key.fold_in(1), key.split(2)[0], key.split(2)[1], Key(7ULL << 32)})
    different.insert(drawn(other));
  EXPECT_EQ(different.size(), 7U);
  EXPECT_EQ(lazy_counters().compilations, 1);  // the key is an input
}

TEST(Random, KeysOfAProgramEqualThoseOfTheHost) {
  const FreshRank rank;
  const Key key(123456789012345);
  const Key traced(Key(123456789012345).words().reshape({2}));
  EXPECT_EQ(numbers(traced.fold_in(17).words()), numbers(key.fold_in(17).words()));
  EXPECT_EQ(numbers(key.fold_in(Tensor::from({17}, {})).words()), numbers(key.fold_in(17).words()));
  EXPECT_EQ(numbers(traced.split(3)[2].words()), numbers(key.split(3)[2].words()));
  EXPECT_EQ(error_of([&] { (void)key.fold_in(-1); }), "fold_in: the number must be in [0, 2^32), got -1");
  EXPECT_EQ(error_of([] { Key(zeros({3}, kU32)); }), "Key: the words of a key are u32[2], got u32[3]");
}

TEST(Random, ACompiledFunctionDrawsFromTheKeyOfEachCall) {
  const FreshRank rank;
  CompiledFunction draw = compile([](const std::vector<Tensor>& words) {
    const auto keys = Key(words[0]).split(2);
    return std::vector<Tensor>{rand(keys[1].fold_in(3), {20})};
  });
  for (const int seed : {1, 2, 1}) {
    const Key key(static_cast<std::uint64_t>(seed));
    EXPECT_EQ(numbers(draw({key.words()})[0]), numbers(rand(key.split(2)[1].fold_in(3), {20}))) << seed;
  }
}

struct Moments {
  double mean = 0;
  double variance = 0;
};
Moments moments(const Numbers& x) {
  Moments out;
  for (const double v : x) out.mean += v / static_cast<double>(x.size());
  for (const double v : x) out.variance += (v - out.mean) * (v - out.mean) / static_cast<double>(x.size());
  return out;
}

TEST(Random, DistributionsHaveTheirMoments) {
  const FreshRank rank;
  const Shape shape{200, 251};
  const Moments uniform = moments(numbers(rand(Key(1), shape, kF64)));
  EXPECT_NEAR(uniform.mean, 0.5, 0.01);
  EXPECT_NEAR(uniform.variance, 1.0 / 12, 0.002);
  const Moments normal = moments(numbers(randn(Key(2), shape, kF64)));
  EXPECT_NEAR(normal.mean, 0, 0.02);
  EXPECT_NEAR(normal.variance, 1, 0.03);
  const Moments extreme = moments(numbers(gumbel(Key(3), shape)));
  EXPECT_NEAR(extreme.mean, 0.5772, 0.03);
  EXPECT_NEAR(extreme.variance, 1.6449, 0.06);
  EXPECT_NEAR(moments(numbers(bernoulli(Key(4), 0.3, shape))).mean, 0.3, 0.01);
}

TEST(Random, IntegersCoverTheirRange) {
  const FreshRank rank;
  const Numbers drawn = numbers(randint(Key(5), -2, 5, {7000}));
  std::map<double, int> counts;
  for (const double x : drawn) ++counts[x];
  ASSERT_EQ(counts.size(), 7U);
  EXPECT_EQ(counts.begin()->first, -2);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 1000, 150) << value;
  EXPECT_EQ(error_of([] { randint(Key(1), 3, 3, {2}); }),
            "randint: the interval [3, 3) must contain 1 to 2^32 numbers");
}

TEST(Random, APermutationHasEveryPositionOnce) {
  const FreshRank rank;
  Numbers order = numbers(randperm(Key(6), 101));
  Numbers expected(101);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_NE(order, expected);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, expected);
}

TEST(Random, CategoricalDrawsWithTheProbabilitiesOfSoftmax) {
  const FreshRank rank;
  const Tensor weights = Tensor::from({1.0, 2.0, 0.0, 5.0}, {4});
  const Tensor logits = log(weights).expand({8000, 4});
  const auto frequencies = [](const Tensor& drawn) {
    std::vector<double> out(4);
    for (const double i : numbers(drawn)) out[static_cast<std::size_t>(i)] += 1.0 / static_cast<double>(drawn.numel());
    return out;
  };
  for (const Tensor& drawn : {categorical(Key(7), logits), categorical(Key(8), logits.t(), 0),
                              multinomial(Key(9), weights, 8000, {.replacement = true})}) {
    EXPECT_EQ(drawn.numel(), 8000);
    const auto shares = frequencies(drawn);
    EXPECT_NEAR(shares[0], 0.125, 0.02);
    EXPECT_NEAR(shares[1], 0.25, 0.02);
    EXPECT_EQ(shares[2], 0);
    EXPECT_NEAR(shares[3], 0.625, 0.02);
  }
}

TEST(Random, MultinomialWithoutReplacementGivesDifferentPositions) {
  const FreshRank rank;
  const Tensor weights = Tensor::from({1.0, 0.0, 3.0, 2.0}, {4}).expand({50, 4});
  const Numbers drawn = numbers(multinomial(Key(10), weights, 3));
  for (std::size_t row = 0; row < 50; ++row) {
    const std::set<double> positions(drawn.begin() + static_cast<int>(3 * row),
                                     drawn.begin() + static_cast<int>(3 * row) + 3);
    EXPECT_EQ(positions, (std::set<double>{0, 2, 3}));
  }
  EXPECT_EQ(error_of([&] { multinomial(Key(1), weights, 5); }),
            "multinomial: cannot draw 5 different positions out of 4; set {.replacement = true} if they may be equal");
}

// ---- bounds -------------------------------------------------------------------------------------------------------------

TEST(Bounded, MissingResultsAreFilledAndFurtherOnesAreDropped) {
  const FreshRank rank;
  const Tensor x = Tensor::from({0, 4, 0, 5, 6, 0}, {2, 3});
  EXPECT_EQ(numbers(nonzero(x, {.size = 3})), (Numbers{0, 1, 1, 0, 1, 1}));
  EXPECT_EQ(numbers(nonzero(x, {.size = 5, .fill_value = -1})), (Numbers{0, 1, 1, 0, 1, 1, -1, -1, -1, -1}));
  EXPECT_EQ(numbers(nonzero(x, {.size = 1})), (Numbers{0, 1}));
  EXPECT_EQ(numbers(masked_select(x, x > 4, {.size = 4, .fill_value = 9})), (Numbers{5, 6, 9, 9}));
  EXPECT_EQ(numbers(nonzero(zeros({0, 3}), {.size = 1, .fill_value = 7})), (Numbers{7, 7}));
}

TEST(Bounded, UniqueGivesValuesPositionsAndCounts) {
  const FreshRank rank;
  const Tensor x = Tensor::from({3, 1, 3, 2, 1, 3}, {2, 3});
  const UniqueResult all = unique(x, {.size = 4, .fill_value = -1});
  EXPECT_EQ(numbers(all.values), (Numbers{1, 2, 3, -1}));
  EXPECT_EQ(numbers(all.counts), (Numbers{2, 1, 3, 0}));
  EXPECT_EQ(numbers(all.inverse), (Numbers{2, 0, 2, 1, 0, 2}));
  EXPECT_EQ(all.inverse.shape(), (Shape{2, 3}));
  EXPECT_EQ(all.count.item(), 3);
  const UniqueResult some = unique(x, {.size = 2});
  EXPECT_EQ(numbers(some.values), (Numbers{1, 2}));
  EXPECT_EQ(some.count.item(), 3);
}

TEST(Bounded, WithoutABoundTheErrorTellsWhatToDo) {
  const FreshRank rank;
  const Tensor x = ones({3});
  const std::string depends =
      "the number of results depends on the data, but programs have fixed shapes; give a bound, ";
  const std::string rest = ", or read the tensor with to_host() and compute on the host";
  const std::string keeps = " with {.size = N}, which keeps the first N results and fills the rest with fill_value";
  EXPECT_EQ(error_of([&] { nonzero(x); }), "nonzero: " + depends + "nonzero(x, ...)" + keeps + rest);
  EXPECT_EQ(error_of([&] { unique(x); }), "unique: " + depends + "unique(x, ...)" + keeps + rest);
  EXPECT_EQ(error_of([&] { masked_select(x, x > 0.0); }), "masked_select: " + depends + "masked_select(x, mask, ...)" +
                                                              keeps + ", or keep the shape with where(mask, x, 0)" +
                                                              rest);
}

// ---- reads --------------------------------------------------------------------------------------------------------------

TEST(HostReads, AreCountedByTheLineThatReads) {
  const FreshRank rank;
  const Tensor x = arange(3);
  const auto counted = [](int line) {
    return metrics().counter_value("host_read::selection_test.cpp:" + std::to_string(line)).value_or(0);
  };
  const int item_line = __LINE__ + 1;
  for (int i = 0; i < 3; ++i) (void)x[i].item();
  std::ostringstream text;
  const int print_line = __LINE__ + 1;
  text << x;
  const int all_line = __LINE__ + 1;
  read_all({x, x});
  EXPECT_EQ(counted(item_line), 3);
  EXPECT_EQ(counted(print_line), 1);
  EXPECT_EQ(counted(all_line), 2);
  EXPECT_EQ(text.str(), "tensor({0,1,2}, s32[3], device xla:0)");
  EXPECT_NE(metrics_report().find("host_read::selection_test.cpp"), std::string::npos);
}

}  // namespace
}  // namespace tessera

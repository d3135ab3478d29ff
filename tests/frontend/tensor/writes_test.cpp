// SPDX-License-Identifier: Apache-2.0
// Functional writes: values by loops, equal positions, positions out of range, gradients at ties, errors.
#include "tessera/frontend/tensor/writes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::counted;
using testing::error_of;
using testing::numbers;
using testing::Numbers;
using Ids = std::vector<std::int32_t>;
using Combine = std::function<double(double, double)>;

double replaced(double, double value) { return value; }
double added(double old, double value) { return old + value; }
double multiplied(double old, double value) { return old * value; }
double least(double old, double value) { return std::min(old, value); }
double largest(double old, double value) { return std::max(old, value); }

// The position that an id writes in a dim of this size; nothing if it is out of range.
std::optional<std::int64_t> written_position(std::int64_t id, std::int64_t size) {
  const std::int64_t position = id < 0 ? id + size : id;
  return position >= 0 && position < size ? std::optional(position) : std::nullopt;
}

struct Write {
  std::string name;
  Combine combine;
  std::function<Tensor(const ElementsAt&, const Tensor&)> apply;
};

std::vector<Write> writes() {
  return {{"set", replaced, [](const ElementsAt& at, const Tensor& v) { return at.set(v); }},
          {"add", added, [](const ElementsAt& at, const Tensor& v) { return at.add(v); }},
          {"multiply", multiplied, [](const ElementsAt& at, const Tensor& v) { return at.multiply(v); }},
          {"min", least, [](const ElementsAt& at, const Tensor& v) { return at.min(v); }},
          {"max", largest, [](const ElementsAt& at, const Tensor& v) { return at.max(v); }}};
}

// Values of this shape from -6 to 6, in no order.
Tensor mixed(const Shape& shape) { return remainder(counted(shape) * 7.0 + 3.0, 13.0) - 6.0; }

std::size_t place(std::int64_t i, std::int64_t j, std::int64_t k) {
  return static_cast<std::size_t>((i * 7 + j) * 3 + k);
}

TEST(At, WritesRowsInTheOrderOfTheIds) {
  const FreshRank rank;
  const Ids ids{3, -1, 3, 9, 4, -6, 0};  // 9 and -6 are out of range
  const Tensor x = mixed({5, 7, 3}) * 2.0;
  const Tensor values = mixed({7, 7, 3});
  for (const Write& write : writes()) {
    Numbers expected = numbers(x);
    const Numbers given = numbers(values);
    for (std::size_t n = 0; n < ids.size(); ++n)
      if (const auto row = written_position(ids[n], 5))
        for (std::size_t e = 0; e < 21; ++e) {
          double& old = expected[static_cast<std::size_t>(*row) * 21 + e];
          old = write.combine(old, given[n * 21 + e]);
        }
    EXPECT_EQ(numbers(write.apply(x.at(Tensor::from(ids, {7})), values)), expected) << write.name;
  }
  EXPECT_EQ(numbers(x), numbers(mixed({5, 7, 3}) * 2.0));
}

TEST(At, WritesPairsOfPositionsInPlaceOfTheirDims) {
  const FreshRank rank;
  const Ids columns{6, 0, -2, 6};
  const Ids depths{2, -3, 5, 2};
  const Tensor c = Tensor::from(columns, {4});
  const Tensor d = Tensor::from(depths, {4});
  const Tensor x = mixed({5, 7, 3}) * 2.0;
  const Tensor values = mixed({5, 4});
  const Numbers given = numbers(values);
  for (const Write& write : writes()) {
    Numbers expected = numbers(x);
    for (std::size_t n = 0; n < 4; ++n)
      for (std::int64_t i = 0; i < 5; ++i) {
        const auto j = written_position(columns[n], 7);
        const auto k = written_position(depths[n], 3);
        if (!j || !k) continue;
        double& old = expected[place(i, *j, *k)];
        old = write.combine(old, given[static_cast<std::size_t>(i) * 4 + n]);
      }
    EXPECT_EQ(numbers(write.apply(x.at({All, c, d}), values)), expected) << write.name;
    // Separated, their dim is the first one.
    const Tensor turned = x.permute(1, 0, 2);  // [7, 5, 3]
    EXPECT_EQ(numbers(write.apply(turned.at({c, All, d}), values.t()).permute(1, 0, 2)), expected) << write.name;
  }
}

TEST(At, WritesRangesWithEveryStep) {
  const FreshRank rank;
  const Tensor x = mixed({5, 7, 3}) * 2.0;
  struct Case {
    Range rows, columns;
    std::vector<std::int64_t> i, j;
  };
  const std::vector<Case> cases{{Range(1, 4), Range({}, {}), {1, 2, 3}, {0, 1, 2, 3, 4, 5, 6}},
                                {Range({}, {}, 2), Range({}, {}, -3), {0, 2, 4}, {6, 3, 0}},
                                {Range(-1, 1, -2), Range(1, 6, 4), {4, 2}, {1, 5}},
                                {Range(3, 1), Range({}, {}), {}, {0, 1, 2, 3, 4, 5, 6}},
                                {Range(4, 5, 3), Range(5, {}, -1), {4}, {5, 4, 3, 2, 1, 0}}};
  for (std::size_t one = 0; one < cases.size(); ++one)
    for (const Write& write : writes()) {
      const auto& [rows, columns, i, j] = cases[one];
      const Tensor values = mixed({static_cast<std::int64_t>(i.size()), static_cast<std::int64_t>(j.size())});
      const Numbers given = numbers(values);
      Numbers expected = numbers(x);
      for (std::size_t a = 0; a < i.size(); ++a)
        for (std::size_t b = 0; b < j.size(); ++b) {
          double& old = expected[place(i[a], j[b], 2)];
          old = write.combine(old, given[a * j.size() + b]);
        }
      EXPECT_EQ(numbers(write.apply(x.at({rows, columns, -1}), values)), expected) << write.name << " case " << one;
    }
}

TEST(At, WritesAtTensorsWithinARange) {
  const FreshRank rank;
  const Ids ids{2, 2, -1, 0, 7};
  const Tensor x = mixed({5, 7, 3}) * 2.0;
  const Tensor values = mixed({3, 5});
  const Numbers given = numbers(values);
  for (const Write& write : writes()) {
    Numbers expected = numbers(x);
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t n = 0; n < 5; ++n)
        if (const auto j = written_position(ids[n], 7)) {
          double& old = expected[place(4 - 2 * static_cast<std::int64_t>(a), *j, 1)];
          old = write.combine(old, given[a * 5 + n]);
        }
    EXPECT_EQ(numbers(write.apply(x.at({Range({}, {}, -2), Tensor::from(ids, {5}), 1}), values)), expected)
        << write.name;
  }
}

TEST(At, ValuesBroadcastAndMayBeNumbers) {
  const FreshRank rank;
  const Tensor x = counted({3, 4});
  const Tensor ids = Tensor::from({2, 0}, {2});
  EXPECT_EQ(numbers(x.at(ids).set(-1)), (Numbers{-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1}));
  EXPECT_EQ(numbers(x.at(1).set(Tensor::from({9.0, 8.0, 7.0, 6.0}, {4}))),
            (Numbers{0, 1, 2, 3, 9, 8, 7, 6, 8, 9, 10, 11}));
  EXPECT_EQ(numbers(x.at({ids, Range(1, 3)}).add(Tensor::from({10.0, 20.0}, {2, 1}))),
            (Numbers{0, 21, 22, 3, 4, 5, 6, 7, 8, 19, 20, 11}));
  EXPECT_EQ(numbers(x.at({Ellipsis}).multiply(2)), numbers(x * 2.0));
  EXPECT_EQ(numbers(x.at({1, Tensor::from({3}, {})}).set(0)), (Numbers{0, 1, 2, 3, 4, 5, 6, 0, 8, 9, 10, 11}));
  EXPECT_EQ(numbers(full({}, 3, kF64).at({NewAxis}).add(1)), Numbers{4});
}

TEST(At, HasEveryElementType) {
  const FreshRank rank;
  const Tensor ids = Tensor::from({2, 0, 2}, {3});
  EXPECT_EQ(numbers(zeros({3}, kBool).at(ids).set(1)), (Numbers{1, 0, 1}));
  EXPECT_EQ(numbers(zeros({3}, kU8).at(ids).add(200)), (Numbers{200, 0, 144}));
  EXPECT_EQ(numbers(ones({3}, kBF16).at(ids).multiply(1.5)), (Numbers{1.5, 1, 2.25}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(numbers(zeros({3}, kF64).at(ids).max(Tensor::from({1.0, nan, 2.0}, {3})))[0]));
}

TEST(At, ErrorsTellWhatIsWrong) {
  const FreshRank rank;
  const Tensor x = counted({3, 4});
  const Tensor ids = Tensor::from({2, 0}, {2});
  EXPECT_EQ(error_of([&] {
              (void)x.at(ids).set(ones({2, 4}));
            }),
            "at().set: the value is f32[2,4], but the tensor is f64[2,4]; convert one with .to()");
  EXPECT_EQ(error_of([&] { (void)x.at(ids).add(counted({3})); }),
            "at().add: shapes [3] and [2,4] do not broadcast: sizes 3 and 4 at dim 1 from the end");
  EXPECT_EQ(error_of([&] { (void)x.at(1).set(counted({2, 4})); }), "at().set: f64[2,4] does not broadcast to [4]");
  EXPECT_EQ(error_of([&] { (void)x.at(3).set(1); }), "at().set: index 3 is outside dim 0 of f64[3,4]");
  EXPECT_EQ(error_of([&] { (void)zeros({3}, kU8).at(ids).set(300); }).substr(0, 27), "at().set: 300 is out of ran");
  EXPECT_EQ(error_of([&] { (void)zeros({3}, kBool).at(ids).set(2); }).substr(0, 33),
            "at().set: the number 2 with pred[");
}

TEST(IndexPut, SetsOrAccumulates) {
  const FreshRank rank;
  const Tensor x = ones({4}, kF64);
  const Tensor ids = Tensor::from({2, -4, 2, 9}, {4});
  const Tensor values = Tensor::from({5.0, 6.0, 7.0, 8.0}, {4});
  EXPECT_EQ(numbers(index_put(x, {ids}, values)), (Numbers{6, 1, 7, 1}));
  EXPECT_EQ(numbers(x.index_put({ids}, values, {.accumulate = true})), (Numbers{7, 1, 13, 1}));
  EXPECT_EQ(numbers(index_put(counted({2, 3}), {All, 1}, -1)), (Numbers{0, -1, 2, 3, -1, 5}));
}

// ---- gradients ----------------------------------------------------------------------------------------------------------

struct Gradients {
  Numbers x, values;
};
Gradients gradients_of(const std::vector<double>& x, const std::vector<double>& values,
                       const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
  Tensor a = Tensor::from(x, {static_cast<std::int64_t>(x.size())});
  Tensor b = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  a.set_requires_grad();
  b.set_requires_grad();
  sum(f(a, b) * (counted({static_cast<std::int64_t>(x.size())}) + 1.0)).backward();
  return {numbers(a.grad()), numbers(b.grad())};
}

TEST(At, TheGradientGoesToTheValuesThatCount) {
  const FreshRank rank;
  const Tensor ids = Tensor::from({2, 0, 2, 7}, {4});
  const auto set =
      gradients_of({1, 1, 1}, {5, 6, 7, 8}, [&](const Tensor& x, const Tensor& v) { return x.at(ids).set(v); });
  EXPECT_EQ(set.x, (Numbers{0, 2, 0}));
  EXPECT_EQ(set.values, (Numbers{0, 1, 3, 0}));
  const auto largest_of = [&](const std::vector<double>& x, const std::vector<double>& values) {
    return gradients_of(x, values, [&](const Tensor& a, const Tensor& v) { return a.at(ids).max(v); });
  };
  const auto ties = largest_of({4, 4, 6}, {6, 4, 6, 9});  // element 2 and both of its values are equal
  EXPECT_EQ(ties.x, (Numbers{0.5, 2, 1}));
  EXPECT_EQ(ties.values, (Numbers{1, 0.5, 1, 0}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto undefined = largest_of({4, nan, 6}, {nan, 5, 1, 9});
  EXPECT_EQ(undefined.x, (Numbers{0, 0, 0}));
  EXPECT_EQ(undefined.values, (Numbers{0, 1, 0, 0}));
  const auto zeros =
      gradients_of({2, 3, 5}, {0, 0, 4, 9}, [&](const Tensor& x, const Tensor& v) { return x.at(ids).multiply(v); });
  EXPECT_EQ(zeros.x, (Numbers{0, 2, 0}));
  EXPECT_EQ(zeros.values, (Numbers{60, 2, 0, 0}));
}

// ---- parts along a dim --------------------------------------------------------------------------------------------------

TEST(Indexing, PartsAreWrittenAlongADim) {
  const FreshRank rank;
  const Ids ids{6, 1, 6, -1, 7};  // -1 and 7 are out of range
  const Tensor index = Tensor::from(ids, {5});
  const Tensor x = mixed({5, 7, 3}) * 2.0;
  const Tensor source = mixed({5, 5, 3});
  const Numbers given = numbers(source);
  const auto expected = [&](const Combine& combine) {
    Numbers out = numbers(x);
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t n = 0; n < 3; ++n)
        for (std::int64_t k = 0; k < 3; ++k) {
          double& old = out[place(i, ids[static_cast<std::size_t>(n)], k)];
          old = combine(old, given[static_cast<std::size_t>((i * 5 + n) * 3 + k)]);
        }
    return out;
  };
  EXPECT_EQ(numbers(index_add(x, 1, index, source)), expected(added));
  EXPECT_EQ(numbers(index_copy(x, -2, index, source)), expected(replaced));
  const Tensor filled = index_fill(x, 1, Tensor::from({-7, 3, 8}, {3}), 9);
  EXPECT_EQ(numbers(filled), numbers(x.at({All, Tensor::from({0, 3}, {2})}).set(9)));
  EXPECT_EQ(error_of([&] { index_add(x, 0, index, source); }),
            "index_add: the source must have the shape [5,7,3], got f64[5,5,3]");
  EXPECT_EQ(error_of([&] { index_copy(x, 1, zeros({5}), source); }),
            "index_copy: the index must be a vector of integers, got f32[5]");
  EXPECT_EQ(error_of([&] { index_fill(x, 1, index, counted({3})); }),
            "index_fill: the value must be a number or a scalar, got f64[3]");
}

// ---- scatter_reduce -----------------------------------------------------------------------------------------------------

TEST(ScatterReduce, EqualsALoop) {
  const FreshRank rank;
  const Ids ids{3, 1, 3, 4, 1, 3, 0, 3, 1, 8, 3, -1};  // 8 and -1 are out of range
  const Tensor index = Tensor::from(ids, {4, 3});
  const Tensor x = mixed({5, 7}) * 2.0;
  const Tensor source = mixed({4, 6}) + 0.5;
  const Numbers given = numbers(source);
  struct Case {
    ScatterReduction reduction;
    double identity;
    Combine combine;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [reduction, identity, combine] : std::vector<Case>{{ScatterReduction::kSum, 0, added},
                                                                      {ScatterReduction::kProd, 1, multiplied},
                                                                      {ScatterReduction::kMean, 0, added},
                                                                      {ScatterReduction::kAmax, -infinity, largest},
                                                                      {ScatterReduction::kAmin, infinity, least}})
    for (const bool include_self : {true, false}) {
      Numbers expected = numbers(x);
      std::vector<int> counts(expected.size(), 1);
      std::vector<bool> is_reached(expected.size());
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 3; ++j) {
          const std::int32_t row = ids[i * 3 + j];
          if (row < 0 || row >= 5) continue;
          const std::size_t to = static_cast<std::size_t>(row) * 7 + j;
          if (!include_self && !is_reached[to]) {
            expected[to] = identity;
            counts[to] = 0;
          }
          is_reached[to] = true;
          expected[to] = combine(expected[to], given[i * 6 + j]);
          ++counts[to];
        }
      for (std::size_t e = 0; reduction == ScatterReduction::kMean && e < expected.size(); ++e)
        expected[e] /= counts[e];
      EXPECT_EQ(numbers(scatter_reduce(x, 0, index, source, reduction, {.include_self = include_self})), expected)
          << static_cast<int>(reduction) << include_self;
    }
}

TEST(ScatterReduce, OfOtherElementTypes) {
  const FreshRank rank;
  const Tensor index = Tensor::from({1, 1, 0}, {3});
  const Tensor x = Tensor::from({-5, 7}, {2});
  EXPECT_EQ(numbers(x.scatter_reduce(0, index, Tensor::from({3, -4, -9}, {3}), ScatterReduction::kAmax,
                                     {.include_self = false})),
            (Numbers{-9, 3}));
  EXPECT_EQ(error_of([&] { scatter_reduce(x, 0, index, zeros({3}, kS32), ScatterReduction::kMean); }),
            "scatter_reduce: the mean of s32[2] would be truncated to an integer; convert it with .to() first");
  const Tensor mean = scatter_reduce(zeros({1}, kBF16), 0, zeros({301}, kS32), ones({301}, kBF16),
                                     ScatterReduction::kMean, {.include_self = false});
  EXPECT_EQ(numbers(mean), Numbers{1});  // summed in f32
}

// ---- masked_scatter -----------------------------------------------------------------------------------------------------

TEST(MaskedScatter, WritesTheElementsOfTheSourceInOrder) {
  const FreshRank rank;
  const Tensor x = counted({2, 3});
  const Tensor mask = Tensor::from(std::vector<bool>{true, false, true}, {3});
  EXPECT_EQ(numbers(masked_scatter(x, mask, counted({5}) + 10.0)), (Numbers{10, 1, 11, 12, 4, 13}));
  EXPECT_EQ(numbers(x.masked_scatter(x > 4.0, counted({3, 1}) + 10.0)), (Numbers{0, 1, 2, 3, 4, 10}));
  EXPECT_EQ(numbers(masked_scatter(x, mask, counted({2}) + 10.0)), (Numbers{10, 1, 11, 11, 4, 11}));
  EXPECT_EQ(error_of([&] { masked_scatter(x, x, x); }), "masked_scatter: the mask must be pred, got f64[2,3]");
}

TEST(Members, OfReadsAndWritesEqualTheFunctions) {
  const FreshRank rank;
  const Tensor x = mixed({2, 3});
  const Tensor at = Tensor::from({2, 0}, {2});
  const Tensor source = counted({2, 2});
  const Tensor index = Tensor::from({0, 2, 1, 1}, {2, 2});
  const ScatterReduction largest_one = ScatterReduction::kAmax;
  const std::vector<std::pair<Tensor, Tensor>> pairs{
      {x.index_add(1, at, source), index_add(x, 1, at, source)},
      {x.index_copy(1, at, source), index_copy(x, 1, at, source)},
      {x.index_fill(1, at, 9), index_fill(x, 1, at, 9)},
      {x.masked_scatter(x > 0.0, counted({6})), masked_scatter(x, x > 0.0, counted({6}))},
      {x.narrow(1, 1, 2), narrow(x, 1, 1, 2)},
      {x.scatter_reduce(1, index, source, largest_one), scatter_reduce(x, 1, index, source, largest_one)},
      {x.take(at), take(x, at)},
      {x.take_along_dim(index, 1), take_along_dim(x, index, 1)}};
  for (std::size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(numbers(pairs[i].first), numbers(pairs[i].second)) << i;
}

}  // namespace
}  // namespace tessera

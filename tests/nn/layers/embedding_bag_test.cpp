// SPDX-License-Identifier: Apache-2.0
// Both forms of EmbeddingBag equal sums, means and maxima of rows, computed here bag by bag, on every mesh.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "frontend/on_ranks.h"
#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/embedding.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kTableRows = 11, kTableWidth = 3;
using Bags = std::vector<std::vector<std::int32_t>>;

// The last bags are a row that occurs twice, padding only, and no row at all.
const Bags kBags{{4, 0, 7, 10}, {2, 2}, {9}, {2}, {}, {1, 2, 10}};

Tensor ids_of(const Bags& bags) {
  std::vector<std::int32_t> all;
  for (const auto& bag : bags) all.insert(all.end(), bag.begin(), bag.end());
  const auto count = static_cast<std::int64_t>(all.size());
  return Tensor::from<std::int32_t>({count}, all);
}
Tensor offsets_of(const Bags& bags, bool with_end) {
  std::vector<std::int32_t> out{0};
  for (const auto& bag : bags) out.push_back(out.back() + isize(bag));
  if (!with_end) out.pop_back();
  return Tensor::from<std::int32_t>({isize(out)}, out);
}

/// The result for each bag. `weights` has one number for each id of all bags.
Numbers bags_by_hand(const Numbers& table, const Bags& bags, BagMode mode, std::optional<std::int32_t> padding,
                     const Numbers& weights = {}) {
  Numbers out;
  std::size_t first = 0;
  for (const auto& bag : bags) {
    for (std::size_t d = 0; d < kTableWidth; ++d) {
      Numbers values;
      for (std::size_t i = 0; i < bag.size(); ++i)
        if (bag[i] != padding)
          values.push_back(table[static_cast<std::size_t>(bag[i]) * kTableWidth + d] *
                           (weights.empty() ? 1 : weights[first + i]));
      double total = 0;
      for (const double value : values) total += value;
      if (values.empty())
        out.push_back(0);
      else if (mode == BagMode::kMax)
        out.push_back(*std::max_element(values.begin(), values.end()));
      else
        out.push_back(mode == BagMode::kMean ? total / static_cast<double>(values.size()) : total);
    }
    first += bag.size();
  }
  return out;
}

EmbeddingBag::Options options_of(BagMode mode, std::optional<std::int64_t> padding) {
  return {.mode = mode, .padding_idx = padding, .dtype = kF64};
}

TEST(EmbeddingBag, BagsOfSeveralLengthsEqualTheDefinition) {
  const FreshRank rank;
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
    for (const std::optional<std::int32_t> padding : {std::optional<std::int32_t>(), std::optional<std::int32_t>(2)})
      for (const bool with_end : {false, true}) {
        EmbeddingBag::Options options = options_of(mode, padding);
        options.include_last_offset = with_end;
        EmbeddingBag bags(kTableRows, kTableWidth, options);
        const Numbers table = values_of(bags.weight());
        const Tensor ids = ids_of(kBags), offsets = offsets_of(kBags, with_end);
        const Tensor result = bags(ids, offsets);
        EXPECT_EQ(result.dims(), (Dims{6, kTableWidth}));
        expect_near(values_of(result), bags_by_hand(table, kBags, mode, padding));
        tessera::expect_gradients([&] { return weighted_sum(bags(ids, offsets)); }, bags.parameters());
      }
}

TEST(EmbeddingBag, BagsOfOneLengthEqualTheDefinition) {
  const FreshRank rank;
  const Bags rows{{4, 0, 7, 10, 3}, {2, 2, 5, 2, 2}, {2, 2, 2, 2, 2}};
  const Tensor ids = ids_of(rows).reshape({3, 5});
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
    for (const std::optional<std::int32_t> padding : {std::optional<std::int32_t>(), std::optional<std::int32_t>(2)}) {
      EmbeddingBag bags(kTableRows, kTableWidth, options_of(mode, padding));
      expect_near(values_of(bags(ids)), bags_by_hand(values_of(bags.weight()), rows, mode, padding));
      tessera::expect_gradients([&] { return weighted_sum(bags(ids)); }, bags.parameters());
    }
}

TEST(EmbeddingBag, WeightsAreFactorsOfTheRows) {
  const FreshRank rank;
  EmbeddingBag bags(kTableRows, kTableWidth, options_of(BagMode::kSum, 2));
  const Numbers table = values_of(bags.weight());
  const Tensor weights = numbers({11}, 3);
  const Tensor ids = ids_of(kBags), offsets = offsets_of(kBags, false);
  expect_near(values_of(bags(ids, offsets, weights)), bags_by_hand(table, kBags, BagMode::kSum, 2, values_of(weights)));
  tessera::expect_gradients([&] { return weighted_sum(bags(ids, offsets, weights)); }, variables_of(bags, {weights}));
  const Bags rows{{4, 0, 7}, {2, 2, 5}};
  const Tensor square_weights = numbers({2, 3}, 3);
  expect_near(values_of(bags(ids_of(rows).reshape({2, 3}), Tensor(), square_weights)),
              bags_by_hand(table, rows, BagMode::kSum, 2, values_of(square_weights)));
}

TEST(EmbeddingBag, ThePaddingRowStartsAsZerosAndTheModeIsTheMean) {
  const FreshRank rank;
  EmbeddingBag padded(5, 3, {.padding_idx = -1});
  const auto table = padded.weight().to_vector<float>();
  EXPECT_EQ((std::vector<float>{table.end() - 3, table.end()}), (std::vector<float>{0, 0, 0}));
  EXPECT_NE(table[0], 0);
  EmbeddingBag plain(5, 1);
  const auto rows = plain.weight().to_vector<float>();
  const Tensor ids = Tensor::from<std::int32_t>({1, 2}, {1, 3});
  EXPECT_NEAR(plain(ids).to_vector<float>()[0], (rows[1] + rows[3]) / 2, 1e-7);
  EXPECT_EQ(names_of(plain), (std::vector<std::string>{"weight 5x1"}));
}

TEST(EmbeddingBag, TrainsAsOneRankOnEveryMesh) {
  const auto trained = [](const std::string& layout, const std::string& rows, const std::string& table) {
    const Mesh mesh = Mesh::parse(layout);
    manual_seed(4);
    EmbeddingBag mean(kTableRows, kTableWidth, options_of(BagMode::kMean, 2));
    EmbeddingBag largest(kTableRows, kTableWidth, options_of(BagMode::kMax, std::nullopt));
    for (const EmbeddingBag* bags : {&mean, &largest}) mark_sharding(bags->weight(), mesh, PartitionSpec::parse(table));
    const auto one = trained_values(mean, [&](int step) {
      const Tensor ids = varied_ids({5, 4}, kTableRows, step);
      mark_sharding(ids, mesh, PartitionSpec::parse(rows + ",-"));
      return weighted_sum(mean(ids));
    });
    Numbers out = trained_values(largest, [&](int step) {
      const Tensor ids = varied_ids({11}, kTableRows, step);
      mark_sharding(ids, mesh, PartitionSpec::parse(rows));
      return weighted_sum(largest(ids, offsets_of(kBags, false)));
    });
    out.insert(out.end(), one.begin(), one.end());
    return out;
  };
  Numbers expected;
  {
    const FreshRank rank;
    expected = trained("a=1", "-", "-,-");
  }
  for (const auto& [layout, rows, table] : {std::tuple("a=2", "a", "-,-"), std::tuple("a=3", "-", "a,-"),
                                            std::tuple("a=3", "a", "-,a"), std::tuple("a=2,b=3", "a", "b,-")})
    on_ranks(
        static_cast<int>(Mesh::parse(layout).device_count()), [&, layout = layout, rows = rows, table = table](int) {
          expect_close(trained(layout, rows, table), expected, fmt::format("{} {} {}", layout, rows, table), 1e-11);
        });
}

TEST(EmbeddingBag, ErrorsNameTheArgument) {
  const FreshRank rank;
  EmbeddingBag bags(5, 3);
  const Tensor ids = Tensor::from<std::int32_t>({3}, {0, 1, 2});
  expect_error([&] { (void)bags(ids); },
               "EmbeddingBag needs ids [bags, length], or ids [n] and offsets [bags], got s32[3]");
  expect_error([&] { (void)bags(ids.unsqueeze(0), ids); },
               "EmbeddingBag needs integer offsets [bags] with ids [n], got s32[3] and s32[1,3]");
  expect_error(
      [&] {
        (void)bags(ids.unsqueeze(0), Tensor(), numbers({1, 3}));
      },
      "EmbeddingBag has per_sample_weights only for BagMode::kSum");
  expect_error([&] { (void)bags(numbers({1, 3})); }, "EmbeddingBag needs integer ids, got f64[1,3]");
  expect_error([] { EmbeddingBag(5, 3, {.padding_idx = 5}); }, "EmbeddingBag: padding_idx 5 is not one of 5 rows");
}

TEST(EmbeddingBag, OffsetsBeginWith0AscendAndAreInRange) {
  const FreshRank rank;
  const Tensor ids = Tensor::from<std::int32_t>({4}, {0, 1, 2, 3});
  const auto offsets = [](const std::vector<std::int64_t>& values) {
    return Tensor::from<std::int64_t>({isize(values)}, values);
  };
  for (const bool with_end : {false, true}) {
    EmbeddingBag bags(5, 3, {.mode = BagMode::kSum, .include_last_offset = with_end});
    expect_error([&] { (void)bags(ids, offsets({1, 2})); }, "EmbeddingBag: the first offset must be 0, got 1");
    expect_error(
        [&] {
          (void)bags(ids, offsets({0, 3, 2}));
        },
        "EmbeddingBag: offset 2 at element 2 is less than 3, the one before it");
    expect_error(
        [&] {
          (void)bags(ids, offsets({0, 5}));
        },
        "EmbeddingBag: offset 5 at element 1 is above 4, the number of ids");
    EXPECT_EQ(bags(ids, offsets({0, 2, 2, 4})).dim(0), with_end ? 3 : 4);
  }
  // Computed offsets are not checked.
  EmbeddingBag bags(5, 3);
  EXPECT_EQ(bags(ids, offsets({0, 2}) + 1.0).dim(0), 2);
}

// As in PyTorch, ids from the last offset on belong to no bag.
TEST(EmbeddingBag, TheLastOffsetMayBeBeforeTheLastId) {
  const FreshRank rank;
  EmbeddingBag::Options options = options_of(BagMode::kSum, std::nullopt);
  options.include_last_offset = true;
  EmbeddingBag bags(kTableRows, kTableWidth, options);
  const Tensor ids = Tensor::from<std::int32_t>({4}, {0, 1, 2, 3});
  expect_near(values_of(bags(ids, Tensor::from<std::int32_t>({3}, {0, 2, 3}))),
              bags_by_hand(values_of(bags.weight()), {{0, 1}, {2}}, BagMode::kSum, std::nullopt));
}

}  // namespace
}  // namespace tessera::nn

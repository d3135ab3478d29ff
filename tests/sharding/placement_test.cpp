// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/placement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

Literal counting(Dims dims) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(product(dims)));
  std::iota(values.begin(), values.end(), 1);
  return Literal::from<std::int32_t>(std::move(dims), values);
}

Sharding sharded(const Mesh& mesh, const char* spec) {
  const PartitionSpec parsed = PartitionSpec::parse(spec);
  return Sharding::from_spec(mesh, parsed, isize(parsed.entries()));
}

std::vector<Literal> all_shards(const Literal& global, const Sharding& sharding, unsigned char fill) {
  std::vector<Literal> shards;
  for (std::int64_t d = 0; d < sharding.mesh.device_count(); ++d)
    shards.push_back(take_shard(global, sharding, d, fill));
  return shards;
}

TEST(Literal, PartsAreCopiedBetweenArraysOfOtherSizes) {
  const Literal from = counting({5, 7, 3});
  struct Part {
    Dims from_start, to_start, sizes, to_dims;
  };
  const Part parts[] = {{{1, 2, 1}, {0, 3, 0}, {3, 4, 2}, {3, 11, 2}}, {{2, 0, 0}, {1, 0, 0}, {3, 7, 3}, {4, 7, 3}},
                        {{0, 5, 0}, {2, 0, 0}, {1, 2, 3}, {4, 2, 3}},  {{4, 6, 2}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}},
                        {{0, 0, 0}, {0, 0, 0}, {5, 0, 3}, {5, 7, 3}},  {{0, 0, 0}, {0, 0, 0}, {5, 7, 3}, {5, 7, 3}}};
  for (const Part& part : parts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(part.sizes, ",")));
    Literal to(Type::array(DType::kS32, part.to_dims));  // zeros
    copy_part(from, part.from_start, to, part.to_start, part.sizes);
    Literal expected(to.type());
    const auto values = expected.mutable_data<std::int32_t>();
    for_each_index(part.sizes, [&](const Dims& index) {
      const auto position = [&](const Dims& start, const Dims& dims) {
        std::int64_t out = 0;
        for (int d = 0; d < 3; ++d) out = out * at(dims, d) + at(start, d) + at(index, d);
        return static_cast<std::size_t>(out);
      };
      values[position(part.to_start, part.to_dims)] =
          from.data<std::int32_t>()[position(part.from_start, from.type().dims())];
    });
    EXPECT_EQ(to, expected);
  }
  Literal scalar(Type::array(DType::kS32, {}));
  copy_part(counting({}), {}, scalar, {}, {});
  EXPECT_EQ(scalar, counting({}));
}

struct TileCase {
  std::int64_t size, tiles, length;
  std::vector<Interval> intervals;
};

TEST(Placement, CanonicalTilesHaveTheCeilingSizeAndTrailingOnesMayBeEmpty) {
  const TileCase cases[] = {
      {8, 4, 2, {{0, 2}, {2, 4}, {4, 6}, {6, 8}}},
      {7, 4, 2, {{0, 2}, {2, 4}, {4, 6}, {6, 7}}},
      {10, 6, 2, {{0, 2}, {2, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 10}}},
      {5, 4, 2, {{0, 2}, {2, 4}, {4, 5}, {5, 5}}},
      {1, 3, 1, {{0, 1}, {1, 1}, {1, 1}}},
      {0, 2, 0, {{0, 0}, {0, 0}}},
      {13, 5, 3, {{0, 3}, {3, 6}, {6, 9}, {9, 12}, {12, 13}}},
      {3, 1, 3, {{0, 3}}},
  };
  for (const auto& c : cases) {
    const DimPlacement dim = DimPlacement::canonical(c.size, c.tiles);
    EXPECT_EQ(dim.length, c.length) << c.size << " over " << c.tiles;
    for (std::int64_t i = 0; i < c.tiles; ++i)
      EXPECT_EQ(dim.interval(i), at(c.intervals, i)) << "tile " << i << " of " << c.size << " over " << c.tiles;
  }
}

TEST(Placement, AHaloIsAPlacementWhoseIntervalsOverlap) {
  const DimPlacement halo{10, 5, 2, -1, 4};  // tile i holds [2i-1, 2i+3)
  EXPECT_EQ(halo.interval(0), (Interval{0, 3}));
  EXPECT_EQ(halo.interval(2), (Interval{3, 7}));
  EXPECT_EQ(halo.interval(4), (Interval{7, 10}));
}

TEST(Placement, ShardTypesAreRoundedUpPerDimAndPerLeafOfATuple) {
  const Mesh mesh({{"data", 2}, {"model", 3}});
  const Type array = Type::array(DType::kF32, {7, 9, 4});
  EXPECT_EQ(shard_type(array, sharded(mesh, "data,model,-")).str(), "f32[4,3,4]");
  EXPECT_EQ(shard_type(array, sharded(mesh, "data+model,-,-")).str(), "f32[2,9,4]");
  EXPECT_EQ(shard_type(array, Sharding::maximal(mesh, 3)), array);
  const Type pair = Type::tuple({array, Type::tuple({Type::array(DType::kS8, {5})})});
  EXPECT_EQ(shard_type(pair, Shardings{sharded(mesh, "-,-,data"), sharded(mesh, "model")}).str(),
            "(f32[7,9,2], (s8[2]))");
  EXPECT_THROW(shard_type(pair, Shardings{}), InternalError);
}

TEST(Placement, ADeviceFindsItsTileThroughAxisOrderDeviceOrderAndSubAxes) {
  const Type global = Type::array(DType::kF32, {12});
  const Mesh mesh({{"x", 2}, {"y", 3}});
  const auto starts = [&](const Sharding& sharding) {
    std::vector<std::int64_t> out;
    const Placement placement = placement_of(global, sharding);
    for (std::int64_t d = 0; d < sharding.mesh.device_count(); ++d) out.push_back(placement.interval(d, 0).start);
    return out;
  };
  using Starts = std::vector<std::int64_t>;
  EXPECT_EQ(starts(sharded(mesh, "x+y")), (Starts{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(starts(sharded(mesh, "y+x")), (Starts{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(starts(sharded(mesh, "y")), (Starts{0, 4, 8, 0, 4, 8}));
  const Mesh reversed({{"x", 2}, {"y", 3}}, {5, 4, 3, 2, 1, 0});
  EXPECT_EQ(starts(sharded(reversed, "x+y")), (Starts{10, 8, 6, 4, 2, 0}));
  const Mesh six({{"z", 6}});
  EXPECT_EQ(starts(sharded(six, "z:(2)3")), (Starts{0, 4, 8, 0, 4, 8}));
  EXPECT_EQ(starts(sharded(six, "z:(1)2")), (Starts{0, 0, 0, 6, 6, 6}));
}

TEST(Placement, ShardsOfEverySpecAssembleToTheArrayWithoutPadding) {
  const Mesh meshes[] = {Mesh({{"a", 2}, {"b", 3}}), Mesh({{"a", 3}, {"b", 2}}), Mesh({{"a", 2}, {"b", 2}, {"c", 2}}),
                         Mesh({{"a", 2}, {"b", 3}}, {3, 0, 5, 1, 4, 2})};
  const char* specs[] = {"-,-", "a,b", "b,a", "a+b,-", "-,b+a", "b,-", "-,a"};
  for (const Mesh& mesh : meshes)
    for (const char* spec : specs)
      for (const Dims& dims : {Dims{7, 5}, Dims{8, 6}, Dims{1, 13}, Dims{2, 0}}) {
        const Literal global = counting(dims);
        const Sharding sharding = sharded(mesh, spec);
        const auto shards = all_shards(global, sharding, 0xFF);
        EXPECT_EQ(assemble(global.type(), sharding, shards), global) << mesh.str() << " " << spec;
      }
}

TEST(Placement, PaddingHoldsTheFillBytes) {
  const Mesh mesh({{"x", 2}});
  const Literal shard = take_shard(counting({3}), sharded(mesh, "x"), 1, 0xFF);
  EXPECT_EQ(shard, Literal::from<std::int32_t>({2}, {3, -1}));
}

TEST(Placement, PartialShardsAreTheValueOnOneDeviceAndTheIdentityOnOthers) {
  const Mesh mesh({{"x", 2}, {"y", 2}});
  Sharding sharding = sharded(mesh, "x");
  sharding.partial = {mesh.full_axis("y")};
  const struct {
    Reduction reduction;
    std::int32_t others;
  } cases[] = {{Reduction::kSum, 0},          {Reduction::kProduct, 1},
               {Reduction::kMin, 2147483647}, {Reduction::kMax, -2147483647 - 1},
               {Reduction::kAnd, -1},         {Reduction::kOr, 0}};
  for (const auto& c : cases) {
    sharding.reduction = c.reduction;
    EXPECT_EQ(take_shard(counting({4}), sharding, 2), Literal::from<std::int32_t>({2}, {3, 4}));
    EXPECT_EQ(take_shard(counting({4}), sharding, 3), Literal::from<std::int32_t>({2}, {c.others, c.others}))
        << reduction_name(c.reduction);
  }
  EXPECT_THROW(assemble(counting({4}).type(), sharding, {}), InternalError);
}

TEST(Placement, IdentitiesOfFloatsKeepInfinitiesAndTheSignOfZero) {
  EXPECT_EQ(partial_identity(DType::kF32, Reduction::kMax).str(), "-inf");
  EXPECT_EQ(partial_identity(DType::kBF16, Reduction::kMin).str(), "inf");
  EXPECT_EQ(partial_identity(DType::kF64, Reduction::kSum).str(), "-0");
  EXPECT_EQ(partial_identity(DType::kPred, Reduction::kAnd).str(), "true");
  EXPECT_EQ(partial_identity(DType::kU8, Reduction::kAnd).str(), "255");
}

TEST(Placement, EqualPlacementsAreTheSameMapOfDevicesToIntervals) {
  const Type global = Type::array(DType::kF32, {12, 5});
  const Mesh mesh({{"x", 2}, {"y", 3}});
  const Mesh flat({{"all", 6}});
  const Mesh other({{"y", 3}, {"x", 2}}, {0, 3, 1, 4, 2, 5});  // device = 3*x + y again
  EXPECT_TRUE(same_placement(global, sharded(mesh, "x+y,-"), sharded(flat, "all,-")));
  EXPECT_TRUE(same_placement(global, sharded(mesh, "x,y"), sharded(other, "x,y")));
  EXPECT_TRUE(same_placement(global, sharded(mesh, "x,-"), sharded(flat, "all:(1)2,-")));
  EXPECT_TRUE(same_placement(global, sharded(flat, "all:(1)2+all:(2)3,-"), sharded(flat, "all,-")));
  EXPECT_FALSE(same_placement(global, sharded(mesh, "x+y,-"), sharded(mesh, "y+x,-")));
  EXPECT_FALSE(same_placement(global, sharded(mesh, "x,-"), sharded(mesh, "-,x")));
  EXPECT_FALSE(same_placement(global, sharded(mesh, "x,-"), sharded(flat, "all:(3)2,-")));
  Sharding sum = sharded(mesh, "x,-");
  sum.partial = {mesh.full_axis("y")};
  EXPECT_FALSE(same_placement(global, sum, sum.without_partial()));
  Sharding sum_flat = sharded(flat, "all:(1)2,-");
  sum_flat.partial = {{0, 2, 3}};
  EXPECT_TRUE(same_placement(global, sum, sum_flat));
  Sharding most = sum;
  most.reduction = Reduction::kMax;
  EXPECT_FALSE(same_placement(global, sum, most));
  EXPECT_TRUE(same_placement(global, Sharding::maximal(mesh, 2), Sharding::maximal(flat, 2)));
}

TEST(Placement, EvenMeansThatEveryDimIsDivided) {
  const Mesh mesh({{"x", 2}, {"y", 3}});
  EXPECT_TRUE(is_even(Type::array(DType::kF32, {4, 3}), sharded(mesh, "x,y")));
  EXPECT_FALSE(is_even(Type::array(DType::kF32, {4, 3}), sharded(mesh, "y,-")));
}

void expect_error(const Type& type, const Sharding& sharding, const char* text) {
  try {
    check_sharding(type, sharding);
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), text);
  }
}

TEST(Placement, AMismatchedShardingIsAnErrorWithTheReason) {
  const Mesh mesh({{"x", 2}, {"y", 6}});
  const Type global = Type::array(DType::kF32, {4, 3});
  expect_error(global, sharded(mesh, "x"), "sharding {x} is for 1 dim, f32[4,3] has 2");
  Sharding twice = sharded(mesh, "x,-");
  twice.partial = {mesh.full_axis("x")};
  expect_error(global, twice, "sharding {x,-} partial sum{x} uses axis \"x\" twice");
  Sharding part = sharded(mesh, "-,-");
  at(part.dims, 0).axes = {{1, 4, 2}};
  expect_error(global, part, "sharding of f32[4,3] uses y:(4)2, which is not a part of an axis of size 6");
  at(part.dims, 0).axes = {{1, 1, 2}, {1, 2, 3}};
  check_sharding(global, part);
}

TEST(MergedAxes, MergeNeighboursThatContinueEachOther) {
  const AxisRef first{0, 1, 2}, second{0, 2, 3}, other{1, 1, 4}, nothing{2, 1, 1};
  EXPECT_EQ(merged_axes({first, nothing, second, other}), (std::vector<AxisRef>{{0, 1, 6}, other}));
  EXPECT_EQ(merged_axes({second, first}), (std::vector<AxisRef>{second, first}));
  EXPECT_EQ(merged_axes({first, other, second}), (std::vector<AxisRef>{first, other, second}));
}

TEST(Type, FindsALeafByItsPath) {
  const Type array = Type::array(DType::kF32, {3});
  const Type nested = Type::tuple({array, Type::tuple({array, array}), array});
  EXPECT_EQ(nested.leaf_index({0}), 0);
  EXPECT_EQ(nested.leaf_index({1, 1}), 2);
  EXPECT_EQ(nested.leaf_index({2}), 3);
  EXPECT_EQ(array.leaf_index({}), 0);
  EXPECT_EQ(nested.leaf_offset(2), 3);
  for (const Dims& path : {Dims{1}, Dims{3}, Dims{-1}, Dims{0, 0}, Dims{}})
    EXPECT_THROW((void)nested.leaf_index(path), Error) << fmt::format("{}", fmt::join(path, ","));
}

}  // namespace
}  // namespace tessera

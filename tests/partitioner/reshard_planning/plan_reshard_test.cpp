// SPDX-License-Identifier: Apache-2.0
// Plans as text, in cases whose best plan can be derived by hand.
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// `data,-` or `data,- sum model` (partial over model).
Sharding sharding_of(const Mesh& mesh, std::string_view text) {
  const auto blank = text.find(' ');
  const PartitionSpec spec = PartitionSpec::parse(text.substr(0, blank));
  Sharding out = Sharding::from_spec(mesh, spec, static_cast<int>(spec.entries().size()));
  if (blank == std::string_view::npos) return out;
  text.remove_prefix(blank + 1);
  const auto space = text.find(' ');
  for (int r = 0; r < 6; ++r)
    if (reduction_name(static_cast<Reduction>(r)) == text.substr(0, space)) out.reduction = static_cast<Reduction>(r);
  const PartitionSpec axes = PartitionSpec::parse(text.substr(space + 1));
  out.partial = Sharding::from_spec(mesh, axes, 1).dims[0].axes;
  return out;
}

struct Case {
  const char* mesh;
  Dims dims;  // of f32
  const char* from;
  const char* to;
  const char* plan;
};

void expect_plans(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Mesh mesh = Mesh::parse(c.mesh);
    const Type global = Type::array(DType::kF32, c.dims);
    const ReshardPlan plan = plan_reshard(global, sharding_of(mesh, c.from), sharding_of(mesh, c.to));
    EXPECT_EQ(plan.str(), c.plan) << global.str() << " " << c.from << " -> " << c.to << " on " << c.mesh;
  }
}

TEST(PlanReshard, UsesOneStepIfThatIsEnough) {
  expect_plans({
      {"x=2,y=4", {8, 16}, "x,-", "x,-", "nothing"},
      {"x=2,y=4", {8, 16}, "-,-", "x,y", "slice{x+y}(0,1)"},
      {"x=2,y=4", {8, 16}, "x,y", "x,-", "all_gather{y}(1) 192 B"},
      {"x=2,y=4", {8, 16}, "y,-", "-,y", "all_to_all{y}(0->1) 96 B"},
      {"x=2,y=4", {8, 16}, "x+y,-", "-,y+x", "all_to_all{x+y}(0->1) 56 B"},
      {"x=2,y=4", {8, 16}, "x+y,-", "y+x,-", "permute{x+y} 64 B"},
      {"a=2,b=2,c=2", {8, 16}, "a,-", "b,-", "permute{a+b} 256 B"},
      {"a=2,b=2,c=2", {8, 8, 8}, "a+b,-,-", "-,a,b", "all_to_all{a+b}(0->1,2) 384 B"},
  });
}

TEST(PlanReshard, TheLastGatherNeedsNoOtherBuffer) {
  expect_plans({
      {"x=2,y=4", {8, 16}, "x,y", "-,-", "all_gather{y}(1) 192 B; all_gather{x}(0) 256 B"},
      {"x=4,y=2", {8, 16}, "x,y", "-,-", "all_gather{y}(1) 64 B; all_gather{x}(0) 384 B"},
      {"x=4,y=2", {1, 8, 16}, "-,x,y", "-,-,-", "all_gather{y}(2) 64 B; all_gather{x}(1) 384 B"},
  });
}

TEST(PlanReshard, AReductionIsScatteredRatherThanReplicated) {
  expect_plans({
      {"x=2,y=4", {8, 16}, "x,- sum y", "x,-", "all_reduce{y} 384 B"},
      {"x=2,y=4", {8, 16}, "x,- sum y", "x+y,-", "reduce_scatter{y}(0) 192 B"},
      {"x=2,y=4", {8, 16}, "x,- max y", "x,y", "reduce_scatter{y}(1) 192 B"},
      {"x=2,y=3", {8, 13}, "x,- sum y", "x,y", "reduce_scatter{y}(1) 160 B"},  // padded to 15 columns
      {"x=2,y=4", {8, 16}, "x,-", "x,- sum y", "partialize{y}"},
      {"x=2,y=4", {8, 16}, "x,- sum y", "x,- sum y", "nothing"},
  });
}

// All replicas over x would compute the same sum. Instead each of them computes half: 384 + 256 bytes are less than
// 768.
TEST(PlanReshard, ReplicasShareTheWorkOfAnAllReduce) {
  expect_plans({{"x=2,y=4", {8, 16}, "-,- sum y", "-,-", "slice{x}(0); all_reduce{y} 384 B; all_gather{x}(0) 256 B"},
                {"x=2,y=2", {8, 16}, "-,- sum y", "-,-", "all_reduce{y} 512 B"}});  // no gain, so one step
}

// A device lacks at most its complete new shard of 128 bytes: no plan may receive more.
TEST(PlanReshard, NeverReceivesMoreThanTheNewShardForEvenSizes) {
  expect_plans({
      {"a=2,b=2,c=2", {8, 16}, "a+b,-", "b,a", "slice{c}(1); permute{a+b+c} 64 B; all_gather{c}(0) 64 B"},
      {"a=2,b=2", {8, 16}, "a+b,-", "b,a", "intersect(0->1) x2 128 B"},
      {"x=2,y=3", {12, 12}, "x,y", "y,x", "intersect(1->0) x3 144 B"},  // thirds and halves do not nest
  });
}

TEST(PlanReshard, UnevenBoundariesMoveOnlyTheRowsThatDiffer) {
  expect_plans({
      // Four tiles of 6283 rows are 25132 rows; a half is 25129 rows. The difference is three rows of 64 floats.
      {"x=2,y=4", {50257, 64}, "x+y,-", "x,-", "all_gather{y}(0) 4825344 B; realign{x}(0) 768 B"},
      {"x=2,y=4", {50257, 64}, "x,-", "x+y,-", "intersect(0) 768 B"},
      {"x=2,y=2", {7, 16}, "x+y,-", "x,-", "all_gather{y}(0) 128 B"},   // 2 + 2 = 4: boundaries agree
      {"x=2,y=2", {1, 16}, "x+y,-", "-,-", "all_gather{x+y}(0) 96 B"},  // as a sum of one row
  });
}

TEST(PlanReshard, APlanHasTheSameFormOn512DevicesAsOn8) {
  expect_plans({
      {"x=2,y=4", {512, 512}, "x,y", "-,y", "all_gather{x}(0) 131072 B"},
      {"x=64,y=8", {512, 512}, "x,y", "-,y", "all_gather{x}(0) 129024 B"},
  });
}

TEST(PlanReshard, ManyDimsMayBeSharded) {
  const Mesh mesh = Mesh::parse("a=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2,i=2");
  const Type global = Type::array(DType::kF32, Dims(9, 2));
  const Sharding sharded = sharding_of(mesh, "a,b,c,d,e,f,g,h,i");
  const Sharding replicated = Sharding::replicated(mesh, 9);
  EXPECT_EQ(plan_reshard(global, sharded, replicated).bytes(), 512 * 4 - 4);
  EXPECT_EQ(plan_reshard(global, replicated, sharded).bytes(), 0);
  EXPECT_EQ(plan_reshard(global, sharded, sharding_of(mesh, "i,a,b,c,d,e,f,g,h")).bytes(), 4);
}

TEST(PlanReshard, MeshesThatShareFactorsNeedNoDetour) {
  const Mesh two({{"x", 2}, {"y", 4}});
  const Mesh one({{"all", 8}});
  const Mesh turned({{"x", 2}, {"y", 4}}, {7, 6, 5, 4, 3, 2, 1, 0});
  const Type global = Type::array(DType::kF32, {8, 16});
  EXPECT_EQ(plan_reshard(global, sharding_of(two, "x+y,-"), sharding_of(one, "all,-")).str(), "nothing");
  EXPECT_EQ(plan_reshard(global, sharding_of(one, "all,-"), sharding_of(two, "x,-")).str(),
            "all_gather{all:(2)4}(0) 192 B");
  EXPECT_EQ(plan_reshard(global, sharding_of(two, "x,y"), sharding_of(turned, "x,y")).str(), "permute{x+y} 64 B");
  EXPECT_EQ(plan_reshard(global, sharding_of(two, "-,-"), sharding_of(turned, "x,-")).str(), "slice{x}(0)");
}

TEST(PlanReshard, AValueOnOneDeviceIsAPartialValue) {
  const Mesh mesh({{"x", 2}, {"y", 2}});
  const Type global = Type::array(DType::kF32, {8, 16});
  const Sharding maximal = Sharding::maximal(mesh, 1);
  EXPECT_EQ(plan_reshard(global, maximal, sharding_of(mesh, "x+y,-")).str(),
            "partialize{x+y}; reduce_scatter{x+y}(0) 384 B");
  EXPECT_EQ(plan_reshard(global, sharding_of(mesh, "-,-"), maximal).str(), "slice");
  EXPECT_EQ(plan_reshard(global, maximal, Sharding::maximal(mesh, 2)).bytes(), 512);
}

TEST(PlanReshard, ErrorsGiveTheReasonWhyAValueCannotBeResharded) {
  const Mesh four({{"x", 4}});
  const Mesh two({{"x", 2}});
  const Type global = Type::array(DType::kF32, {8});
  const auto expect_error = [&](const Type& type, const Sharding& from, const Sharding& to, const char* text) {
    try {
      plan_reshard(type, from, to);
      ADD_FAILURE() << "no error: " << text;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), text);
    }
  };
  expect_error(global, sharding_of(four, "x"), sharding_of(two, "x"),
               "cannot reshard f32[8] from {x} of mesh<x=4> to {x} of mesh<x=2>: the meshes have 4 and 2 devices");
  expect_error(global, sharding_of(four, "x"), Sharding::manual_everywhere(four),
               "cannot reshard f32[8] from {x} to {manual}: a manual value changes through SPMDFullToShardShape or "
               "SPMDShardToFullShape");
  expect_error(Type::tuple({global}), sharding_of(four, "x"), sharding_of(four, "-"),
               "cannot reshard (f32[8]): only arrays have shards");
  EXPECT_EQ(plan_reshard(global, sharding_of(four, "x"), sharding_of(two, "-")).str(), "all_gather{x}(0) 24 B");
}

}  // namespace
}  // namespace tessera

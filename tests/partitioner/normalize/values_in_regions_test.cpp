// SPDX-License-Identifier: Apache-2.0
// Values of manual regions that other passes or annotations change: states of loops, expanded ops, asynchronous
// collectives, and values that differ where they must be equal.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"

namespace tessera {
namespace {

CheckReport report_on(const std::string& text) {
  const Program program = parse_program(text, op_table(), {"in.hlo"});
  return check_partition(program, {.seed = 5, .trip_limit = 50, .run = nullptr});
}

void expect_equal(const std::string& text) {
  const CheckReport report = report_on(text);
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n")) << "\n" << text;
  EXPECT_GT(report.values_compared, 0);
}

// The region is manual along 2 devices; the partitioner shards both dims of %l over the other 2x2 devices.
std::string loop(const std::string& of_condition, const std::string& of_body, const std::string& of_loop) {
  return fmt::format(R"(HloModule m, num_partitions=8
cond {{ p = (s32[], f32[5,6]) parameter(0){}
  i = s32[] get-tuple-element(p), index=0
  z = s32[] constant(0)
  ROOT r = pred[] compare(i, z), direction=GT }}
body {{ p = (s32[], f32[5,6]) parameter(0){}
  i = s32[] get-tuple-element(p), index=0
  o = s32[] constant(1)
  n = s32[] subtract(i, o)
  v = f32[5,6] get-tuple-element(p), index=1
  t = f32[5,6] tanh(v)
  ROOT r = (s32[], f32[5,6]) tuple(n, t) }}
ENTRY e {{
  x = f32[10,6] parameter(0), sharding={{devices=[2,1,4]<=[8] last_tile_dim_replicate}}
  three = s32[] constant(3)
  l = f32[5,6] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={{devices=[2,2,2]<=[2,2,2]T(1,2,0) last_tile_dims={{manual}}}}
  t = (s32[], f32[5,6]) tuple(three, l)
  w = (s32[], f32[5,6]) while(t), condition=cond, body=body{}
  v = f32[5,6] get-tuple-element(w), index=1
  ROOT out = f32[10,6] custom-call(v), custom_call_target="SPMDShardToFullShape", sharding={{devices=[2,1,4]<=[8] last_tile_dim_replicate}} }}
)",
                     of_condition, of_body, of_loop);
}

TEST(ValuesInRegions, AnAnnotationOfALoopsStateHoldsWhereverItStands) {
  const std::string all = ", sharding={replicated}";
  const std::string each =
      ", sharding={{replicated}, {devices=[1,2,2,2]<=[2,2,2]T(1,2,0) last_tile_dims={replicated, manual}}}";
  for (const std::string& annotation : {all, each}) {
    expect_equal(loop("", annotation, ""));
    expect_equal(loop(annotation, "", ""));
    expect_equal(loop(annotation, annotation, annotation));
  }
  expect_equal(loop("", "", ""));
}

// The partitioner expands batch-norm into sums. They must not use the axes of the region.
TEST(ValuesInRegions, ExpandedOpsStayInTheRegion) {
  expect_equal(R"(HloModule m, num_partitions=4
ENTRY e {
  x = f32[3,5,2] parameter(0)
  f = f32[5] parameter(1)
  m = f32[5] parameter(2)
  v = f32[5] parameter(3)
  d = f32[3,5,2] parameter(4)
  g = (f32[3,5,2], f32[5], f32[5]) batch-norm-grad(x, f, m, v, d), epsilon=0.001, feature_index=1, sharding={{devices=[1,1,2,2]<=[4] last_tile_dims={manual}}, {devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}, {devices=[2,2]<=[4] last_tile_dims={manual}}}
  o = f32[5] get-tuple-element(g), index=2
  ROOT c = f32[10] custom-call(o), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
}
)");
  expect_equal(R"(HloModule m, num_partitions=8
ENTRY e {
  x = f32[3,5,2] parameter(0)
  f = f32[5] parameter(1)
  b = f32[5] parameter(2)
  n = (f32[3,5,2], f32[5], f32[5]) batch-norm-training(x, f, b), epsilon=0.001, feature_index=1, sharding={{devices=[2,1,1,4]<=[2,2,2]T(1,0,2) last_tile_dims={manual}}, {devices=[2,4]<=[2,2,2]T(1,0,2) last_tile_dims={manual}}, {devices=[2,4]<=[2,2,2]T(1,0,2) last_tile_dims={manual}}}
  o = f32[5] get-tuple-element(n), index=2
  ROOT c = f32[20] custom-call(o), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}
}
)");
}

// %s is computed from no value of the region, so only its sharding says that it is manual.
TEST(ValuesInRegions, AsynchronousCollectivesKeepTheirShardings) {
  expect_equal(R"(HloModule m, num_partitions=6
ENTRY e {
  x = f32[6,2] parameter(0), sharding={devices=[6,1]<=[6]}
  l = f32[1,2] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  i = f32[1,2] iota(), iota_dimension=1
  s = (f32[1,2], f32[6,2]) all-gather-start(i), channel_id=1, replica_groups=[1,6]<=[6], use_global_device_ids=true, dimensions={0}, sharding={{manual}, {manual}}
  d = f32[6,2] all-gather-done(s), sharding={manual}
  h = f32[1,2] slice(d), slice={[3:4], [0:2]}
  a = f32[1,2] add(l, h)
  ROOT o = f32[6,2] custom-call(a), custom_call_target="SPMDShardToFullShape", sharding={devices=[6,1]<=[6]}
}
)");
}

TEST(ValuesInRegions, TheCheckNamesUnequalValuesThatLeaveARegionAsEqual) {
  const auto leaving = [](const char* sharding, const char* type) {
    return fmt::format(R"(HloModule m, num_partitions=6
ENTRY e {{
  x = f32[6,5] parameter(0), sharding={{devices=[2,1,3]<=[6] last_tile_dim_replicate}}
  l = f32[3,5] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  ROOT o = f32[{},5] custom-call(l), custom_call_target="SPMDShardToFullShape", sharding={{{}}}
}}
)",
                       type, sharding);
  };
  expect_equal(leaving("devices=[2,1,3]<=[6] last_tile_dim_replicate", "6"));
  const CheckReport report = report_on(leaving("replicated", "3"));
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.unequal_results, "result 0 differs between devices 0 and 3");
}

TEST(ValuesInRegions, AnErrorNamesTheValueWhoseShardingUsesAManualAxis) {
  const std::string text = R"(HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  l = f32[4,6] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={replicated, manual}}
  n = f32[4,6] negate(l), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  ROOT y = f32[8,6] custom-call(n), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
})";
  try {
    FAIL() << "passed: " << report_on(text).passed;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 14), "%n: sharding {") << error.what();
  }
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Shardings and groups of devices in XLA's forms: they are read, preserved and printed again.
#include <gtest/gtest.h>

#include "round_trip.h"
#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/op_table.h"

namespace tessera {
namespace {

// A callback runs on one device. Other values need not be sharded.
TEST(XlaSpellings, TheOnlyMeshMayHaveASingleDevice) {
  const auto text = [](const std::string& header, int device) {
    return fmt::format(
        "HloModule m, {}frontend_attributes={{xla.sdy.meshes={{mx = #sdy.mesh<[], device_ids=[{}]>}}}}\n"
        "ENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x), "
        "frontend_attributes={{xla.sdy.sharding=\"#sdy.sharding_per_value<[<@mx, []>]>\"}}\n}}\n",
        header, device);
  };
  for (const auto& [header, device, count] :
       {std::tuple{"", 0, 1}, std::tuple{"num_partitions=4, ", 2, 4}, std::tuple{"", 2, 3}}) {
    const Program program = round_trip(text(header, device));
    EXPECT_EQ(program.num_partitions, count);
    EXPECT_EQ(named(program, "y").sharding->front().kind, Sharding::Kind::kMaximal);
    EXPECT_EQ(named(program, "y").sharding->front().device, device);
  }
}

// As JAX prints the shardings of an ordered callback.
TEST(XlaSpellings, AnElementMayCarryTheShardingsOfItsWholeTuple) {
  const Program program = round_trip(R"(HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=3]>}}
ENTRY e {
  x = f32[6,4] parameter(0)
  c = (f32[6], (f32[6,4], f32[4])) custom-call(x), custom_call_target="f"
  g = (f32[6,4], f32[4]) get-tuple-element(c), index=1, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}]>, <@mesh, [{\"a\"}, {}]>, <@mesh, [{}]>]>"}
  ROOT y = f32[6,4] get-tuple-element(g), index=0
})");
  EXPECT_EQ(named(program, "g").sharding->size(), 2U);
  EXPECT_EQ(named(program, "g").sharding->at(0).str(), "{a,-}");
}

TEST(XlaSpellings, ShardingsWithAxisNamesKeepThemAndTheirOpenDims) {
  const Program program = round_trip(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,8] parameter(0), sharding={mesh['x'=2,'y'=4], [{'x'}, {'y':(1)2, ?}]}
  b = f32[8,8] parameter(1), sharding={mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'x'}, {}], replicated={'y'}}
  c = f32[8,8] parameter(2), sharding={mesh['x'=2,'y'=4], replicated}
  d = f32[8,8] parameter(3), sharding={maximal_mesh[device_id=3]}
  f = f32[8,8] add(a, b), sharding={mesh['x'=2,'y'=4], [{}, {'y'}], unreduced={'x'}}
  ROOT t = (f32[8,8], f32[8,8]) tuple(f, c), sharding={{mesh['x'=2,'y'=4], [{'x'}, {}]}, {mesh['x'=2,'y'=4], [{}, {'x'}]}}
})");
  EXPECT_EQ(named(program, "a").sharding->front().str(), "{x,y:(1)2?}");
  EXPECT_EQ(named(program, "b").sharding->front().mesh.device_order(),
            (std::vector<std::int64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_TRUE(named(program, "c").sharding->front().is_replicated());
  EXPECT_EQ(named(program, "d").sharding->front().device, 3);
  EXPECT_EQ(named(program, "f").sharding->front().str(), "{-,y} partial sum{x}");
  EXPECT_EQ(named(program, "t").sharding->at(1).str(), "{-,x}");
}

TEST(XlaSpellings, ReplicaGroupsAlongMeshAxesAreThoseGroups) {
  const Program program = round_trip(R"(HloModule m, num_partitions=8
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), channel_id=1, use_global_device_ids=true, to_apply=add, replica_groups=mesh['x'=2,'y'=4] {'x'}
})");
  EXPECT_EQ(named(program, "r").attributes->texts()[1].text, "[4,2]<=[2,4]T(1,0)");
}

TEST(XlaSpellings, UnspecifiedDimsStayOpen) {
  const Program program = round_trip(R"(HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,8] parameter(0)
  ROOT s = f32[8,8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, backend_config="unspecified_dims=[1]"
})");
  const Sharding& sharding = named(program, "s").sharding->front();
  EXPECT_FALSE(sharding.dims[0].open);
  EXPECT_TRUE(sharding.dims[1].open);
}

// The shardings of the data come before that of the token, although an outfeed returns only the token.
TEST(XlaSpellings, AnOutfeedMayHaveShardingsOfItsOperands) {
  const auto text = [](const std::string& shardings) {
    return "HloModule m, num_partitions=4\nENTRY e {\n  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
           "  y = f32[8,2] parameter(1)\n  t = token[] after-all()\n  both = (f32[8], f32[8,2]) tuple(x, y)\n"
           "  q = token[] outfeed(both, t), outfeed_shape=(f32[8], f32[8,2]), sharding={" +
           shardings + "}\n  ROOT r = f32[8] negate(x)\n}";
  };
  const Program program = round_trip(text("{devices=[4]<=[4]}, {devices=[2,2]<=[4]}, {replicated}"));
  EXPECT_EQ(named(program, "q").sharding->size(), 1U);
  const std::string without_token = text("{devices=[4]<=[4]}, {devices=[2,2]<=[4]}");
  EXPECT_NE(print_program(round_trip(without_token)).find("sharding={{devices=[4]<=[4]}, {devices=[2,2]<=[4]}}"),
            std::string::npos);
  EXPECT_THROW(read(text("{replicated}, {replicated}, {replicated}, {replicated}")), Error);
  EXPECT_THROW(read(text("{devices=[2,2]<=[4]}, {devices=[2,2]<=[4]}, {replicated}")), Error);
}

TEST(XlaSpellings, AnOutfeedOfOneArrayMayLeaveOutTheTokensSharding) {
  const auto text = [](const std::string& sharding) {
    return "HloModule m, num_partitions=4\nENTRY e {\n  x = f32[7,2] parameter(0)\n  t = token[] after-all()\n"
           "  ROOT q = token[] outfeed(x, t), outfeed_shape=f32[7,2], sharding=" +
           sharding + "\n}";
  };
  const Program program = round_trip(text("{devices=[4,1]<=[4]}"));
  EXPECT_NE(print_program(program, {.for_xla = true}).find("sharding={devices=[4,1]<=[4]}"), std::string::npos);
  round_trip(text("{maximal device=1}"));
  EXPECT_THROW(read(text("{devices=[4]<=[4]}")), Error);
}

}  // namespace
}  // namespace tessera

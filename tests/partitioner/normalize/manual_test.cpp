// SPDX-License-Identifier: Apache-2.0
// Manual regions (shard_map) in Shardy's and GSPMD's form, shard groups, barriers, and device orders that no mesh axis
// describes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

const std::string kAdd = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n";

Program parsed(const std::string& text) { return parse_program(text, op_table(), {"in.hlo"}); }

std::map<std::string, std::int64_t> checked_collectives(const std::string& text) {
  const Program program = parsed(text);
  const Program again = parse_program(print_program(program), op_table());
  EXPECT_EQ(difference(program, again), "");
  const CheckReport report = check_partition(program, {.seed = 3, .trip_limit = 50, .run = nullptr});
  const Program local = partition(program).program;
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n")) << "\n" << print_program(local);
  EXPECT_GT(report.values_compared, 0);
  std::map<std::string, std::int64_t> out;
  for (const auto& kind : program_stats(local).collectives) out[kind.opcode] = kind.count;
  return out;
}

using Counts = std::map<std::string, std::int64_t>;

// Rows are sharded over x, the contracting dim over y. The region performs the sum over y itself.
std::string shardy(const std::string& inside) {
  return "HloModule m, num_partitions=6, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, "
         "\"y\"=3]>}}\n" +
         kAdd +
         R"(body {
  a = f32[3,2] parameter(0)
  b = f32[2,5] parameter(1)
  d = f32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)" + inside +
         R"(
}
ENTRY e {
  a = f32[6,6] parameter(0), sharding={devices=[2,3]<=[6]}
  b = f32[6,5] parameter(1)
  in = (f32[3,2], f32[2,5]) custom-call(a, b), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {\"y\"}]>, <@mesh, [{\"y\"}, {}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"x\", \"y\"}>"}
  la = f32[3,2] get-tuple-element(in), index=0
  lb = f32[2,5] get-tuple-element(in), index=1
  r = f32[3,5] call(la, lb), to_apply=body, frontend_attributes={inlineable="false"}
  ROOT out = f32[6,5] custom-call(r), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"x\", \"y\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]>"}
})";
}

constexpr const char* kSum =
    "  ROOT s = f32[3,5] all-reduce(d), channel_id=1, replica_groups={{0,1,2},{3,4,5}}, use_global_device_ids=true, "
    "to_apply=add";

TEST(ManualRegion, ShardysRegionKeepsItsCollectiveAndGetsNoOther) {
  // b is replicated, so each device slices its rows; a already has the required sharding.
  EXPECT_EQ(checked_collectives(shardy(kSum)), (Counts{{"all-reduce", 1}}));
}

TEST(ManualRegion, TheCheckComparesTheResultsOfARegion) {
  // Without the sum, the devices along y have different values, although the text declares them replicated.
  const auto only_partial_value = parsed(shardy("  ROOT s = f32[3,5] negate(d)"));
  EXPECT_FALSE(check_partition(only_partial_value).passed);
  const auto wrong_groups = parsed(shardy(
      "  ROOT s = f32[3,5] all-reduce(d), channel_id=1, replica_groups={{0,1,2,3,4,5}}, use_global_device_ids=true, "
      "to_apply=add"));
  EXPECT_TRUE(check_partition(wrong_groups).passed);  // another sum, but the same on both sides
}

// The same region in GSPMD's form.
TEST(ManualRegion, GspmdsRegionIsPartitionedEqually) {
  const std::string text = "HloModule m, num_partitions=6\n" + kAdd + R"(body {
  a = f32[3,2] parameter(0)
  b = f32[2,5] parameter(1)
  d = f32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)" + kSum + R"(
}
ENTRY e {
  a = f32[6,6] parameter(0), sharding={devices=[2,3]<=[6]}
  am = f32[6,6] custom-call(a), custom_call_target="Sharding", sharding={devices=[2,3]<=[6]}
  la = f32[3,2] custom-call(am), custom_call_target="SPMDFullToShardShape", sharding={manual}
  b = f32[6,5] parameter(1)
  bm = f32[6,5] custom-call(b), custom_call_target="Sharding", sharding={devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}
  lb = f32[2,5] custom-call(bm), custom_call_target="SPMDFullToShardShape", sharding={manual}
  r = f32[3,5] call(la, lb), to_apply=body
  rm = f32[3,5] custom-call(r), custom_call_target="Sharding", sharding={manual}
  ROOT out = f32[6,5] custom-call(rm), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,3]<=[6] last_tile_dim_replicate}
})";
  EXPECT_EQ(checked_collectives(text), (Counts{{"all-reduce", 1}}));
}

// Manual over x. The partitioner shards the content over y like any other code.
std::string partly_manual(int rows, const std::string& inside, const std::string& local_rows) {
  return "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, "
         "\"y\"=2]>}}\n" +
         kAdd + "body {\n  a = f32[" + local_rows + ",4] parameter(0)\n  b = f32[4,6] parameter(1)\n  d = f32[" +
         local_rows + ",6] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" + inside + "\n}\n" +
         fmt::format(R"(ENTRY e {{
  a = f32[{0},4] parameter(0), sharding={{devices=[4,1]<=[4]}}
  b = f32[4,6] parameter(1), sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}}
  in = (f32[{1},4], f32[4,6]) custom-call(a, b), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={{xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{{\"x\", ?}}, {{?}}]>, <@mesh, [{{?}}, {{?}}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{{\"x\"}}>"}}
  la = f32[{1},4] get-tuple-element(in), index=0
  lb = f32[4,6] get-tuple-element(in), index=1
  r = f32[{1},6] call(la, lb), to_apply=body
  ROOT out = f32[{0},6] custom-call(r), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={{xla.sdy.manual_axes="#sdy<manual_axes{{\"x\"}}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{{\"x\", ?}}, {{?}}]>]>"}}
}})",
                     rows, local_rows);
}

constexpr const char* kSwap =
    "  ROOT s = f32[{0},6] collective-permute(d), channel_id=1, "
    "source_target_pairs={{{{0,2}},{{2,0}},{{1,3}},{{3,1}}}}";

TEST(ManualRegion, OtherAxesShardTheContentOfARegion) {
  const std::string text = partly_manual(8, fmt::format(kSwap, 4), "4");
  const auto counts = checked_collectives(text);
  EXPECT_EQ(counts.at("collective-permute"), 1);
  // Rows are sharded over x and y and stay so: each device multiplies 2 rows of 8, or 3 columns of 6.
  const auto stats = program_stats(partition(parsed(text)).program);
  EXPECT_EQ(stats.flops_per_device, 2.0 * 8 * 4 * 6 / 4);
}

TEST(ManualRegion, LocalRowsThatOtherAxesDoNotDivideAreNotShardedOverThem) {
  // Sharding 3 local rows over y gives other rows than sharding 6 rows over x and y.
  checked_collectives(partly_manual(6, fmt::format(kSwap, 3), "3"));
}

TEST(ManualRegion, ReshardsInsideNeverCrossManualAxes) {
  // Reshards from rows to columns over y, for each coordinate of x. Values differ along x, so that the test detects
  // values of another coordinate.
  const std::string inside = R"(  i = u32[] partition-id()
  f = f32[] convert(i)
  n = f32[4,6] broadcast(f), dimensions={}
  two = f32[] constant(2)
  half = f32[] divide(f, two)
  x = f32[] floor(half)
  xs = f32[4,6] broadcast(x), dimensions={}
  t = f32[4,6] add(d, xs)
  rows = f32[4,6] custom-call(t), custom_call_target="Sharding", sharding={replicated}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"y\"}, {}]>"}
  sin = f32[4,6] sine(rows)
  columns = f32[4,6] custom-call(sin), custom_call_target="Sharding", sharding={replicated}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\"y\"}]>"}
  ROOT s = f32[4,6] cosine(columns))";
  // The product is sharded by columns, as b is: exchanging it costs half of gathering b. Then it is resharded to rows
  // and to columns again.
  EXPECT_EQ(checked_collectives(partly_manual(8, inside, "4")).at("all-to-all"), 2);
}

TEST(ManualRegion, ReductionsOverOtherAxesInsideAreInserted) {
  const std::string inside =
      R"(  c = f32[4,6] custom-call(d), custom_call_target="Sharding", sharding={replicated}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"y\"}, {}]>"}
  zero = f32[] constant(0)
  sums = f32[6] reduce(c, zero), dimensions={0}, to_apply=add
  ROOT s = f32[4,6] broadcast(sums), dimensions={1})";
  checked_collectives(partly_manual(8, inside, "4"));
}

TEST(ManualRegion, AComputationCalledInsideAndOutsideOfARegionIsCopied) {
  const std::string text = R"(HloModule m, num_partitions=2
f { p = f32[4] parameter(0) ROOT n = f32[4] sine(p) }
ENTRY e {
  x = f32[8] parameter(0)
  w = f32[4] parameter(1), sharding={devices=[2]<=[2]}
  o = f32[4] call(w), to_apply=f
  m = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
  l = f32[4] custom-call(m), custom_call_target="SPMDFullToShardShape", sharding={manual}
  c = f32[4] call(l), to_apply=f
  g = f32[8] custom-call(c), custom_call_target="SPMDShardToFullShape", sharding={devices=[2]<=[2]}
  ROOT t = (f32[8], f32[4]) tuple(g, o)
})";
  checked_collectives(text);
}

TEST(ManualRegion, LoopsAndBranchesInsideRunPerDevice) {
  const std::string text = R"(HloModule m, num_partitions=4
cond { s = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0 three = s32[] constant(3) ROOT c = pred[] compare(i, three), direction=LT }
body {
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[2] get-tuple-element(s), index=1
  p = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  y = f32[2] sine(p)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[2]) tuple(j, y)
}
ENTRY e {
  x = f32[8] parameter(0)
  m = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
  l = f32[2] custom-call(m), custom_call_target="SPMDFullToShardShape", sharding={manual}
  zero = s32[] constant(0)
  s = (s32[], f32[2]) tuple(zero, l)
  w = (s32[], f32[2]) while(s), condition=cond, body=body
  r = f32[2] get-tuple-element(w), index=1
  ROOT g = f32[8] custom-call(r), custom_call_target="SPMDShardToFullShape", sharding={devices=[4]<=[4]}
})";
  EXPECT_EQ(checked_collectives(text).at("collective-permute"), 1);
}

TEST(ManualRegion, ADeviceOrderThatNoAxisDescribesIsKept) {
  const std::string text = R"(HloModule m, num_partitions=5
ENTRY e {
  x = f32[10] parameter(0)
  m = f32[10] custom-call(x), custom_call_target="Sharding", sharding={devices=[5]3,0,4,1,2}
  l = f32[2] custom-call(m), custom_call_target="SPMDFullToShardShape", sharding={manual}
  p = f32[2] collective-permute(l), channel_id=1, source_target_pairs={{3,0},{0,4},{4,1},{1,2},{2,3}}
  ROOT g = f32[10] custom-call(p), custom_call_target="SPMDShardToFullShape", sharding={devices=[5]3,0,4,1,2}
})";
  checked_collectives(text);
}

TEST(ManualRegion, CollectivesOutsideOfRegionsAreRefused) {
  const std::string text =
      "HloModule m, num_partitions=2\nENTRY e { x = f32[2] parameter(0)\n"
      "ROOT p = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1}} }";
  EXPECT_THROW(partition(parsed(text)), Error);
}

// As in XLA ("across devices that belong to different manual subgroups"): x is manual, and the partitioner may use y.
TEST(ManualRegion, ACollectiveDoesNotCrossTheAxesLeftToThePartitioner) {
  const auto error_of = [](const std::string& collective) -> std::string {
    const std::string sharding = ", sharding={devices=[1,2,2]<=[4] last_tile_dims={manual}}";
    try {
      partition(parsed("HloModule m, num_partitions=4\n" + kAdd + "ENTRY e { x = f32[8,4] parameter(0)" + sharding +
                       "\n  r = f32[8,4] " + collective + sharding + "\n  ROOT y = f32[8,4] negate(r)" + sharding +
                       " }"));
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const auto sum = [](const std::string& groups) {
    return "all-reduce(x), channel_id=1, replica_groups=" + groups + ", use_global_device_ids=true, to_apply=add";
  };
  EXPECT_EQ(error_of(sum("{{0,1},{2,3}}")), "none");
  EXPECT_EQ(error_of(sum("{{1,0},{2,3}}")), "none");  // the order of a group has no meaning for a sum
  EXPECT_EQ(error_of("collective-permute(x), channel_id=1, source_target_pairs={{1,0},{3,2}}"), "none");
  for (const std::string groups : {"{{0,2},{1,3}}", "{{0,3},{1,2}}", "{{0,1,2,3}}", "{{0,1,2},{3}}"})
    EXPECT_NE(error_of(sum(groups)).find("all-reduce %r connects devices 0 and "), std::string::npos)
        << groups << error_of(sum(groups));
  EXPECT_NE(error_of(sum("{}")).find("all-reduce %r has one group of all devices"), std::string::npos);
  EXPECT_NE(error_of(sum("{{0,1},{2},{3}}")).find("the groups of all-reduce %r differ along axes"), std::string::npos);
  EXPECT_NE(error_of("collective-permute(x), channel_id=1, source_target_pairs={{0,2},{1,3}}")
                .find("connects devices 0 and 2"),
            std::string::npos);
}

// A text with such groups is refused when it is read; this program is made otherwise.
TEST(ManualRegion, ACollectiveNamesOnlyDevicesOfTheProgram) {
  const std::string sharding = ", sharding={devices=[1,2,2]<=[4] last_tile_dims={manual}}";
  Program program = parsed(
      "HloModule m, num_partitions=4\nENTRY e { x = f32[8,4] parameter(0)" + sharding +
      "\n  ROOT r = f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{1,0},{3,2}}" + sharding + " }");
  Computation entry = program.entry_computation();
  entry.instructions.back().attributes = make_attributes(PermuteAttributes{1, {{{1, 0}, {3, 9}}}});
  at(program.computations, program.entry) = std::make_shared<const Computation>(std::move(entry));
  try {
    partition(program);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "collective-permute %r names device 9, but the program is for 4 devices");
  }
}

TEST(ManualRegion, AResultMustHaveLeftTheRegion) {
  const std::string text = R"(HloModule m, num_partitions=2
ENTRY e {
  x = f32[8] parameter(0)
  m = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
  ROOT l = f32[4] custom-call(m), custom_call_target="SPMDFullToShardShape", sharding={manual}
})";
  EXPECT_THROW(partition(parsed(text)), Error);
}

TEST(ManualRegion, ErrorsNameMismatchedTypes) {
  const std::string text = R"(HloModule m, num_partitions=2
ENTRY e {
  x = f32[8] parameter(0)
  m = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
  ROOT l = f32[3] custom-call(m), custom_call_target="SPMDFullToShardShape", sharding={manual}
})";
  try {
    partition(parsed(text));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("%l: f32[8] sharded as"), std::string::npos) << error.what();
  }
}

std::string error_of(const std::string& text) {
  try {
    partition(parsed(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ManualRegions, AValueOutsideOfRegionsCannotLeaveOne) {
  EXPECT_EQ(error_of(R"(HloModule m, num_partitions=6
ENTRY e {
  p = f32[12,6] parameter(0), sharding={devices=[2,3]<=[6]}
  ROOT o = f32[12,6] custom-call(p), custom_call_target="SPMDShardToFullShape", sharding={devices=[6,1]<=[6]}
})"),
            "%o leaves a manual region, but its operand %p is not in one; remove %o");
}

// A sharding left to propagation is the same as no sharding. A value on one device, or a manual one, has no tiles with
// which to enter the region.
TEST(ManualRegions, AValueThatEntersIsReplicatedOrTiled) {
  const auto entering = [](const std::string& sharding) {
    return "HloModule m, num_partitions=2\nENTRY e { x = f32[8] parameter(0), sharding=" + sharding +
           "\nm = f32[8] custom-call(x), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
           "ROOT o = f32[8] custom-call(m), custom_call_target=\"SPMDShardToFullShape\", sharding={replicated} }";
  };
  EXPECT_EQ(error_of(entering("{replicated}")), "no error");
  EXPECT_EQ(error_of(entering("{unknown}")), "no error");
  for (const std::string sharding : {"{maximal device=0}", "{manual}"})
    EXPECT_NE(error_of(entering(sharding)).find("at the border of a manual region it must be replicated or tiled"),
              std::string::npos)
        << error_of(entering(sharding));
  std::string leaving = entering("{replicated}");
  leaving.replace(leaving.rfind("{replicated}"), 12, "{unknown}");
  EXPECT_NE(error_of(leaving).find("%o needs a sharding that describes how the shards of %m form it"),
            std::string::npos)
      << error_of(leaving);
}

TEST(ManualRegions, ReplicasAreRefused) {
  EXPECT_EQ(error_of("HloModule m, replica_count=2, num_partitions=3\nENTRY e { p = f32[6] parameter(0), "
                     "sharding={devices=[3]<=[3]}\n  ROOT r = f32[6] negate(p) }"),
            "m has replica_count=2; only programs with one replica can be partitioned: count all devices in "
            "num_partitions, and add a mesh axis for the replicas");
}

// ---- groups, barriers ------------------------------------------------------------------------------------------------

TEST(ShardGroups, MembersOfAShardAsGroupGetTheSameSharding) {
  const std::string text = R"(HloModule m, num_partitions=2, allow_spmd_sharding_propagation_to_output={true,true}
ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[8,4] parameter(1)
  sx = f32[8,4] sine(x)
  sy = f32[8,4] cosine(y)
  a = f32[8,4] custom-call(sx), custom_call_target="Sharding", sharding={unknown shard_as 1}
  b = f32[8,4] custom-call(sy), custom_call_target="Sharding", sharding={unknown shard_as 1}
  ROOT t = (f32[8,4], f32[8,4]) tuple(a, b)
})";
  EXPECT_EQ(checked_collectives(text), Counts{});
  const auto global = partition(parsed(text)).global.entry_computation();
  EXPECT_EQ(global[global.root].sharding->at(1).tiles(0), 2);
}

// %x and %z each share a group with %y, so all three form one group.
TEST(ShardGroups, ShardysGroupsWithACommonMemberAreMerged) {
  const auto member = [](const char* name, const char* of, int group) {
    return fmt::format(
        R"(  {} = () custom-call({}), custom_call_target="xla.sdy.ShardingGroup", custom_call_has_side_effect=true, )"
        "frontend_attributes={{xla.sdy.sharding_group_id=\"{} : i64\"}}\n",
        name, of, group);
  };
  const std::string text =
      R"(HloModule m, num_partitions=6, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["u"=2, "v"=3]>}}
ENTRY e {
  x = f32[7,10] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"u\"}, {\"v\"}]>"}
  y = f32[7,10] parameter(1)
  z = f32[7,10] parameter(2)
)" + member("g", "x", 4) +
      member("h", "y", 4) + member("i", "y", 7) + member("j", "z", 7) +
      "  ROOT t = (f32[7,10], f32[7,10], f32[7,10]) tuple(x, y, z)\n}\n";
  EXPECT_EQ(checked_collectives(text), Counts{});
  const auto local = partition(parsed(text)).program.entry_computation();
  for (const Id parameter : local.parameters) EXPECT_EQ(local[parameter].type.str(), "f32[4,4]");
}

TEST(ShardGroups, ABarrierStopsPropagation) {
  const std::string text = R"(HloModule m, num_partitions=2, allow_spmd_sharding_propagation_to_output={true}
ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  b = f32[8,4] custom-call(x), custom_call_target="ShardBarrierFrom"
  ROOT s = f32[8,4] sine(b)
})";
  checked_collectives(text);
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// All pairs of sharding forms in one module, on 2, 4, 6 and 8 devices, and tuples of them in loops, branches and calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"

namespace tessera {
namespace {

const std::string kAddition = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n";

void expect_passes(int devices, const std::string& attributes, const std::string& computations,
                   const std::string& body) {
  const std::string text =
      fmt::format("HloModule m, num_partitions={}{}\n{}ENTRY e {{\n{}\n}}\n", devices, attributes, computations, body);
  try {
    const CheckReport report = check_partition(parse_program(text, op_table()));
    EXPECT_TRUE(report.passed) << text << fmt::format("{}", fmt::join(report.failures, "\n"));
  } catch (const Error& error) {
    ADD_FAILURE() << text << error.what();
  }
}

TEST(ShardingForms, AnyTwoFormsCanOccurInAModule) {
  const std::map<int, std::vector<std::string>> forms = {
      {2, {"{maximal device=1}", "{devices=[2,1]1,0}", "{devices=[1,2]<=[2]}", "{unknown}", "{unreduced}"}},
      {4,
       {"{maximal device=3}", "{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}",
        "{devices=[2,1,2]<=[4] last_tile_dims={unreduced}}",
        "{devices=[1,1,2,2]<=[4] last_tile_dims={unreduced, replicated}}", "{devices=[4,1]0,3,1,2}",
        "{devices=[2,2]<=[2,2]T(1,0)}"}},
      {6,
       {"{devices=[2,3]<=[6]}", "{devices=[3,2]<=[2,3]T(1,0)}", "{devices=[3,1,2]<=[6] last_tile_dims={unreduced}}",
        "{devices=[1,3,2]<=[6] last_tile_dim_replicate}", "{devices=[6,1]5,4,3,2,1,0}",
        "{devices=[1,1,3,2]<=[6] last_tile_dims={unreduced, replicated}}"}},
      {8,
       {"{devices=[2,2,2]<=[8] last_tile_dim_replicate}",
        "{devices=[2,1,2,2]<=[8] last_tile_dims={unreduced, replicated}}", "{devices=[4,2]<=[2,2,2]T(2,0,1)}",
        "{devices=[1,1,8]<=[8] last_tile_dims={unreduced}}"}}};
  for (const auto& [devices, list] : forms)
    for (const auto& one : list)
      for (const auto& two : list)
        expect_passes(
            devices, "", kAddition,
            "a = f32[6,10] parameter(0) b = f32[10,5] parameter(1)\nk = f32[6,10] sine(a), sharding=" + one +
                "\nd = f32[6,5] dot(k, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding=" + two +
                "\nz = f32[] constant(0) r = f32[6] reduce(d, z), dimensions={1}, to_apply=add\n"
                "ROOT t = (f32[6,5], f32[6]) tuple(d, r)");
}

TEST(ShardingForms, TuplesOfFormsPassThroughControlFlow) {
  const std::string loop =
      "more { p = (f32[6,4], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=1 n = s32[] constant(3)\n"
      "ROOT c = pred[] compare(i, n), direction=LT }\n"
      "step { p = (f32[6,4], s32[]) parameter(0) x = f32[6,4] get-tuple-element(p), index=0 y = f32[6,4] sine(x)\n"
      "i = s32[] get-tuple-element(p), index=1 o = s32[] constant(1) j = s32[] add(i, o)\n"
      "ROOT t = (f32[6,4], s32[]) tuple(y, j) }\n";
  for (const std::string leaf :
       {"{devices=[2,2]<=[4]}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{maximal device=2}", "{unknown}"}) {
    const std::string tuple = "{" + leaf + ", {replicated}}";
    const std::string first =
        "first { x = f32[6,4] parameter(0) y = f32[6,4] sine(x) z = s32[] constant(1)\n"
        "ROOT t = (f32[6,4], s32[]) tuple(y, z), sharding=" +
        tuple + " }\n";
    const std::string head = loop + first;
    const std::string a =
        "a = f32[6,4] parameter(0), sharding={devices=[4,1]<=[4]} z = s32[] constant(0)\n"
        "t = (f32[6,4], s32[]) tuple(a, z)\n";
    expect_passes(4, "", head,
                  a + "w = (f32[6,4], s32[]) while(t), condition=more, body=step, sharding=" + tuple +
                      "\nROOT g = f32[6,4] get-tuple-element(w), index=0");
    expect_passes(4, "", head,
                  a + "w = (f32[6,4], s32[]) call(a), to_apply=first\nROOT g = f32[6,4] get-tuple-element(w), index=0");
    expect_passes(4, "", head,
                  a +
                      "p = pred[] parameter(1) w = (f32[6,4], s32[]) conditional(p, a, a), true_computation=first, "
                      "false_computation=first, sharding=" +
                      tuple + "\nROOT g = f32[6,4] get-tuple-element(w), index=0");
  }
}

TEST(ShardingForms, ParametersAndResultsMayBeLeftOpenSeparately) {
  const auto shardings = [](const std::string& allowed) {
    const Program program =
        parse_program("HloModule m, num_partitions=4" + allowed +
                          "\nENTRY e { a = f32[8,6] parameter(0) b = f32[8,6] parameter(1)\n"
                          "k = f32[8,6] add(a, b), sharding={devices=[4,1]<=[4]} l = f32[8,6] sine(k)\n"
                          "ROOT t = (f32[8,6], f32[8,6]) tuple(l, k) }",
                      op_table());
    EXPECT_TRUE(check_partition(program).passed) << allowed;
    const Computation entry = partition(program).program.entry_computation();
    return fmt::format("{} {} -> {}", entry.parameter_types()[0].str(), entry.parameter_types()[1].str(),
                       entry.root_type().str());
  };
  EXPECT_EQ(shardings(""), "f32[8,6] f32[8,6] -> (f32[8,6], f32[2,6])");
  EXPECT_EQ(shardings(", allow_spmd_sharding_propagation_to_parameters={false,true}"),
            "f32[8,6] f32[2,6] -> (f32[8,6], f32[2,6])");
  EXPECT_EQ(shardings(", allow_spmd_sharding_propagation_to_parameters={true}, "
                      "allow_spmd_sharding_propagation_to_output={true,false}"),
            "f32[2,6] f32[2,6] -> (f32[2,6], f32[2,6])");
}

// If the header has no entry, none is added, except for the leaves that an open annotation refers to.
TEST(ShardingForms, AnOpenAnnotationOpensTheResultsThatAreTheValue) {
  const Program program = parse_program(
      "HloModule m, num_partitions=4\n"
      "ENTRY e { a = f32[8,6] parameter(0) k = f32[8,6] cosine(a) l = f32[8,6] sine(k)\n"
      "s = (f32[8,6], f32[8,6]) tuple(a, l) ROOT t = (f32[8,6], (f32[8,6], f32[8,6]), f32[8,6]) tuple(l, s, a) }",
      op_table());
  const Mesh mesh = Mesh::parse("a=4");
  const auto freed = [&](const std::string& name, std::vector<bool> said) {
    Program given = program;
    given.propagate_to_output = std::move(said);
    return annotate(given, mesh, name, "?,?").propagate_to_output;
  };
  using Leaves = std::vector<bool>;
  EXPECT_EQ(freed("k", {}), Leaves{});
  EXPECT_EQ(freed("k", {true}), Leaves{true});
  EXPECT_EQ(freed("l", {}), (Leaves{true, false, true, false}));
  EXPECT_EQ(freed("a", {false}), (Leaves{false, true, false, true}));
}

// As in XLA's Shardy.
TEST(ShardingForms, ShardyLeavesUnannotatedParametersToPropagation) {
  const Program program = parse_program(
      R"(HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}
ENTRY e { a = f32[8,6] parameter(0)
b = f32[8,6] parameter(1), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"}
k = f32[8,6] add(a, b), frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]>"}
ROOT l = f32[8,6] sine(k) })",
      op_table());
  EXPECT_TRUE(check_partition(program).passed);
  const Computation entry = partition(program).program.entry_computation();
  EXPECT_EQ(entry.parameter_types()[0].str(), "f32[2,6]");
  EXPECT_EQ(entry.parameter_types()[1].str(), "f32[8,6]");
}

// JAX appends numbers to the names of arguments.
TEST(ShardingForms, AParameterIsFoundWithoutItsNumberIfUnambiguous) {
  const Program program = parse_program(
      "HloModule m, num_partitions=2\n"
      "ENTRY main { x.1 = f32[4,6] parameter(0) y.1 = f32[4,6] parameter(1) y.2 = f32[4,6] parameter(2)\n"
      "s = f32[4,6] add(x.1, y.1) ROOT t = f32[4,6] add(s, y.2) }",
      op_table());
  const Mesh mesh = Mesh::parse("a=2");
  const Program annotated = annotate(program, mesh, "x", "a,-");
  EXPECT_TRUE(annotated.entry_computation()[0].sharding);
  EXPECT_THROW(annotate(program, mesh, "y", "a,-"), Error);
  try {
    (void)annotate(program, mesh, "x", "a,None");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("write - for an unsharded dim"), std::string::npos) << error.what();
  }
}

TEST(ShardingForms, MaximalOrderedAndPartlyReplicatedOnesMeet) {
  expect_passes(4, "", "", R"(x = f32[7,4] parameter(0), sharding={maximal device=2}
  y = f32[7,4] parameter(1), sharding={devices=[4,1]2,0,3,1}
  z = f32[7,4] parameter(2), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}
  a = f32[7,4] add(x, y)
  b = f32[7,4] multiply(a, z), sharding={devices=[2,2]0,3,1,2}
  ROOT t = (f32[7,4], f32[7,4]) tuple(a, b), sharding={{maximal device=1}, {devices=[1,4]<=[4]}})");
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Parameters and results that are unreduced: each device of a group has a different partial value.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/partitioner/reshard_insertion/partial_values.h"

namespace tessera {
namespace {

using Counts = std::map<std::string, std::int64_t>;

const std::string kThird =
    "{devices=[2,1,3]<=[6] last_tile_dims={unreduced}}";  // rows sharded over two devices, partial values over three
const std::string kRows = "{devices=[2,1,3]<=[6] last_tile_dim_replicate}";

Program program_of_body(const std::string& body, int devices = 6, const std::string& header = "") {
  return parse_program(fmt::format("HloModule m, num_partitions={}{}\nENTRY e {{\n{}\n}}\n", devices, header, body),
                       op_table());
}

// Checks that the partitioned program computes the same as the global one, and returns its collectives.
Counts passing_collectives(const Program& program) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const CheckReport report = check_partition(program, {.seed = seed, .trip_limit = 10, .run = nullptr});
    EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"))
                               << print_program(partition(program).program);
    EXPECT_GT(report.values_compared, 0);
  }
  Counts out;
  for (const auto& kind : program_stats(partition(program).program).collectives) out[kind.opcode] = kind.count;
  return out;
}

std::string unary(const std::string& op, const std::string& from, const std::string& to) {
  return "a = f32[7,5] parameter(0), sharding=" + from + "\nROOT r = f32[7,5] " + op + "(a), sharding=" + to;
}

TEST(Unreduced, ADotMayLeaveItsSumToTheCaller) {
  const Program program = program_of_body(
      "a = f32[7,11] parameter(0), sharding={devices=[1,6]<=[6]}\nb = f32[11,5] parameter(1), "
      "sharding={devices=[6,1]<=[6]}\n"
      "ROOT d = f32[7,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={unreduced}");
  EXPECT_EQ(passing_collectives(program), Counts{});
  EXPECT_NE(print_program(partition(program).program).find("sharding={unreduced}"), std::string::npos);
}

TEST(Unreduced, LinearOpsPassPartialValuesThrough) {
  EXPECT_EQ(passing_collectives(program_of_body(unary("negate", kThird, kThird))), Counts{});
  EXPECT_EQ(passing_collectives(program_of_body(unary("negate", "{unreduced}", "{unreduced}"))), Counts{});
  EXPECT_EQ(passing_collectives(program_of_body("ROOT a = f32[7,5] parameter(0), sharding=" + kThird)), Counts{});
  const Program several = program_of_body("a = f32[7,5] parameter(0), sharding=" + kThird +
                                          "\nb = f32[7,5] parameter(1), sharding=" + kRows +
                                          "\nn = f32[7,5] negate(a)\nc = f32[7,5] add(n, b)\nd = f32[7,5] add(c, a)\n"
                                          "ROOT t = (f32[7,5], f32[7,5]) tuple(d, n), sharding={" +
                                          kThird + ", " + kThird + "}");
  EXPECT_EQ(passing_collectives(several), Counts{});
  const std::string text = print_program(partition(several).program);
  EXPECT_NE(text.find("parameter(0), sharding=" + kThird), std::string::npos) << text;
  EXPECT_NE(text.find("sharding={" + kThird + ", " + kThird + "}"), std::string::npos) << text;
}

TEST(Unreduced, AParameterIsSummedIfItsValueIsNeeded) {
  EXPECT_EQ(passing_collectives(program_of_body(unary("sine", kThird, kRows))), (Counts{{"all-reduce", 1}}));
  EXPECT_EQ(passing_collectives(program_of_body(unary("negate", "{unreduced}", "{replicated}"))),
            (Counts{{"all-reduce", 1}}));
  EXPECT_EQ(passing_collectives(program_of_body("a = f32[12,5] parameter(0), sharding={unreduced}\n"
                                                "ROOT r = f32[12,5] sine(a), sharding={devices=[6,1]<=[6]}")),
            (Counts{{"reduce-scatter", 1}}));
  EXPECT_EQ(passing_collectives(program_of_body(
                "a = f32[7,5] parameter(0), sharding=" + kThird +
                "\nb = f32[7,5] sine(a)\nc = f32[7,5] cosine(a)\nROOT d = f32[7,5] add(b, c), sharding=" + kRows)),
            (Counts{{"all-reduce", 1}}))
      << "once for both";
}

TEST(Unreduced, AReplicatedResultBecomesPartialWithoutCommunication) {
  EXPECT_EQ(passing_collectives(program_of_body(unary("sine", kRows, kThird))), Counts{});
  EXPECT_EQ(passing_collectives(program_of_body(unary("sine", "{replicated}", "{unreduced}"))), Counts{});
  EXPECT_EQ(passing_collectives(program_of_body(unary("sine", "{unreduced}", "{unreduced}"))),
            (Counts{{"all-reduce", 1}}));
}

TEST(Unreduced, EveryFormCombinesWithEveryOther) {
  const std::vector<std::string> forms = {"{unreduced}",
                                          kThird,
                                          "{devices=[1,3,2]<=[6] last_tile_dims={unreduced}}",
                                          "{devices=[1,1,3,2]<=[6] last_tile_dims={unreduced, replicated}}",
                                          "{devices=[1,1,2,3]<=[3,2]T(1,0) last_tile_dims={unreduced, replicated}}",
                                          "{devices=[3,2]<=[2,3]T(1,0)}",
                                          "{maximal device=4}",
                                          "{replicated}"};
  for (const auto& from : forms)
    for (const auto& to : forms)
      for (const std::string op : {"negate", "sine"}) {
        SCOPED_TRACE(op + " " + from + " -> " + to);
        passing_collectives(program_of_body(unary(op, from, to)));
      }
}

TEST(Unreduced, AnyNumbersAndTuplesAreSplitIntoPartialValues) {
  for (const std::string type : {"bf16", "f16", "f64", "s8", "u32", "s64", "c64"}) {
    SCOPED_TRACE(type);
    const std::string array = type + "[7,5]";
    passing_collectives(program_of_body(
        "p = (" + array + ", " + type + "[]) parameter(0), sharding={" + kThird + ", {unreduced}}\na = " + array +
        " get-tuple-element(p), index=0\ns = " + type + "[] get-tuple-element(p), index=1\nb = " + array +
        " broadcast(s), dimensions={}\nc = " + array + " multiply(a, b)\nROOT t = (" + array + ", " + array +
        ") tuple(c, a), sharding={" + kThird + ", " + kRows + "}"));
  }
  const std::string meshes =
      ", frontend_attributes={xla.sdy.meshes=\"{mesh = #sdy.mesh<[\\\"x\\\"=2, \\\"y\\\"=3]>}\"}";
  const auto largest = [](const std::string& dims) {
    return "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [" + dims + "], unreduced=max{\\\"y\\\"}>\"}";
  };
  passing_collectives(program_of_body("a = f32[7,5] parameter(0), " + largest(R"({\"x\"}, {})") +
                                          "\nROOT r = f32[7,5] exponential(a), " + largest(R"({\"x\"}, {})"),
                                      6, meshes));
}

// ---- a check that can fail ------------------------------------------------------------------------------------------------

// Removes the sums from the program.
Program without_sums(Program program) {
  Computation entry = program.entry_computation();
  std::vector<Id> instead(entry.instructions.size());
  for (Id id = 0; id < entry.size(); ++id) {
    auto& instruction = entry.instructions[static_cast<std::size_t>(id)];
    for (Id& operand : instruction.operands) operand = instead[static_cast<std::size_t>(operand)];
    instead[static_cast<std::size_t>(id)] = instruction.op->name == "all-reduce" ? instruction.operands.front() : id;
  }
  entry.root = instead[static_cast<std::size_t>(entry.root)];
  program.computations[static_cast<std::size_t>(program.entry)] = std::make_shared<const Computation>(std::move(entry));
  return program;
}

TEST(Unreduced, AMissingSumIsFound) {
  for (const std::string op : {"sine", "negate", "abs"}) {
    const Program program = program_of_body(unary(op, kThird, kRows));
    Partitioned parts = partition(program, {.keep_shardings = true});
    EXPECT_TRUE(check_partitioned(program, parts).passed);
    parts.program = without_sums(parts.program);
    EXPECT_FALSE(check_partitioned(program, parts).passed) << op;
  }
}

TEST(Unreduced, AnExtraSumAndPartialValuesUsedAsTheValueAreFound) {
  const Program program = program_of_body(unary("negate", kThird, kThird));
  const Program summed = program_of_body(unary("negate", kThird, kRows));
  Partitioned parts = partition(program);
  parts.program = partition(summed).program;
  EXPECT_FALSE(check_partitioned(program, parts).passed) << "three times the value";
  parts = partition(program_of_body(unary("abs", kThird, kThird)));
  parts.program = without_sums(parts.program);
  EXPECT_FALSE(check_partitioned(program_of_body(unary("abs", kThird, kThird)), parts).passed)
      << "partial_values differ in sign";
}

TEST(Unreduced, PartialValuesAddUpExactly) {
  const Mesh mesh = Mesh::parse("x=2,y=3");
  Sharding sharding = Sharding::replicated(mesh, 1);
  sharding.partial = {mesh.full_axis("x"), mesh.full_axis("y")};
  const Literal value = in_units(Literal::from<float>({4}, {0.9F, -0.3F, 0.01F, -1.F}), 0.125);
  EXPECT_EQ(value, Literal::from<float>({4}, {0.875F, -0.25F, 0.125F, -1.F}));
  const auto partial_values = random_partial_values(value, sharding, 0.125, 7);
  ASSERT_EQ(partial_values.size(), 6U);
  EXPECT_NE(partial_values[0], value);
  for (const Literal& sum : reduced_shards(sharding, partial_values)) EXPECT_EQ(sum, value);
  EXPECT_EQ(unreduced_text(sharding), "unreduced over x+y");
}

TEST(Unreduced, TheNoteOfASumNamesTheParametersAxes) {
  const auto notes = partition(program_of_body(unary("sine", kThird, kRows))).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].from.find("annotated, unreduced over _1"), std::string::npos) << notes[0].from;
  EXPECT_EQ(notes[0].remedy.text(), "pass %a summed, with the sharding {_0,-}");
}

// The maxima of sharded rows are reduced before they are broadcast along the rows, even through a copy (as in a softmax
// without gradients through its maxima).
TEST(Unreduced, MaximaOfRowsAreReducedBeforeTheyAreBroadcast) {
  const std::string text =
      "HloModule m, num_partitions=2\nmax { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) "
      "}\n"
      "ENTRY main { x = f32[4,51] parameter(0), sharding={devices=[1,2]<=[2]} low = f32[] constant(-inf)\n"
      "r = f32[4] reduce(x, low), dimensions={1}, to_apply=max\nc = f32[4] copy(r), "
      "frontend_attributes={tessera.stop_gradient=\"true\"}\nb = f32[4,51] broadcast(c), "
      "dimensions={0}\n"
      "s = f32[4,51] subtract(x, b)\nROOT e = f32[4,51] exponential(s), sharding={devices=[1,2]<=[2]} }";
  const Program program = parse_program(text, op_table());
  const CheckReport report = check_partition(program, {});
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  EXPECT_EQ(program_stats(partition(program).program).total_collective_bytes, 4 * 4)
      << print_program(partition(program).program);
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The partitioned program equals the unpartitioned one, and contains the expected collectives and no others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "partitioner/pipeline/partition_cases.h"
#include "tessera/ir/text.h"

namespace tessera {
namespace {

using namespace partition_cases;  // NOLINT(google-build-using-namespace)

TEST(Partition, DotIsRightForEveryShardingOfItsDims) {
  const std::vector<std::string> specs = {"-,-", "a,-", "-,a", "b,a", "a+b,-", "-,b+a"};
  for (const auto& x : specs)
    for (const auto& w : specs)
      for (const auto& h : specs)
        expect_equal({"dot", dot_module(7, 5, 11), "a=2,b=3", {{"x", x}, {"w", w}, {"h", h}}});
}

TEST(Partition, DotOverAShardedContractingDimIsOneReduction) {
  const auto replicated =
      partition(program_of({"d", dot_module(8, 6, 4), "m=2", {{"x", "-,m"}, {"w", "m,-"}, {"h", "-,-"}}}));
  EXPECT_EQ(collective_counts(replicated.program), (std::map<std::string, std::int64_t>{{"all-reduce", 1}}));
  const auto scattered =
      partition(program_of({"d", dot_module(8, 6, 4), "m=2", {{"x", "-,m"}, {"w", "m,-"}, {"h", "m,-"}}}));
  EXPECT_EQ(collective_counts(scattered.program), (std::map<std::string, std::int64_t>{{"reduce-scatter", 1}}));
}

TEST(Partition, MegatronMlpHasOneAllReduce) {
  const std::string body =
      "ENTRY main { x = f32[6,8] parameter(0) w1 = f32[8,12] parameter(1) w2 = f32[12,8] parameter(2)\n"
      "h = f32[6,12] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "t = f32[6,12] tanh(h)\n"
      "ROOT y = f32[6,8] dot(t, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
  const Case c{"mlp", body, "data=2,model=3", {{"x", "data,-"}, {"w1", "-,model"}, {"w2", "model,-"}, {"y", "data,-"}}};
  expect_equal(c);
  const auto parts = partition(program_of(c));
  EXPECT_EQ(collective_counts(parts.program), (std::map<std::string, std::int64_t>{{"all-reduce", 1}}));
  ASSERT_EQ(parts.notes.size(), 1U);
  EXPECT_EQ(parts.notes[0].axes, "model");
  EXPECT_EQ(parts.notes[0].bytes, 2 * (3 * 8 * 4) * 2 / 3);
}

TEST(Partition, AnOpenDimOfAnAnnotationGetsItsAxesFromPropagation) {
  const std::string body =
      "ENTRY main { x = f32[6,5] parameter(0) w = f32[5,7] parameter(1)\n"
      "h = f32[6,7] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "ROOT y = f32[6,7] tanh(h) }";
  const Case c{"open", body, "data=2,model=3", {{"x", "data,-"}, {"h", "?,model"}, {"y", "data,model"}}};
  expect_equal(c);
  EXPECT_EQ(collective_counts(partition(program_of(c)).program), (std::map<std::string, std::int64_t>{}));
  const Case closed{"closed", body, "data=2,model=3", {{"x", "data,-"}, {"h", "-,model"}, {"y", "data,model"}}};
  // The closed dim requires an exchange that the next instruction reverts; a later pass removes both.
  EXPECT_EQ(collective_counts(partition(program_of(closed), {.skip_passes = {"simplify-collectives"}}).program).size(),
            1U);
  EXPECT_EQ(collective_counts(partition(program_of(closed)).program), (std::map<std::string, std::int64_t>{}));
}

// The sum of two partial values, where one is sharded over an axis over which the other is partial: reducing over this
// axis first transfers less than gathering the sharded value.
TEST(Partition, PartialSumsAreReducedOverTheirCommonAxes) {
  const std::string body =
      "ENTRY main { a = f32[8,60] parameter(0) b = f32[60,12] parameter(1) c = f32[8,4] parameter(2) d = f32[4,12] "
      "parameter(3)\n"
      "p = f32[8,12] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "q = f32[8,12] dot(c, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "ROOT s = f32[8,12] add(p, q) }";
  const Case c{"sum", body, "x=2,y=2", {{"a", "-,x+y"}, {"b", "x+y,-"}, {"c", "y,x"}, {"d", "x,-"}, {"s", "y+x,-"}}};
  expect_equal(c);
  const auto parts = partition(program_of(c));
  EXPECT_EQ(collective_counts(parts.program), (std::map<std::string, std::int64_t>{{"reduce-scatter", 2}}));
}

TEST(Partition, AnOpUsesItsMeshNotTheFirstOne) {
  const Program program = parse_program(
      R"(HloModule two_meshes, num_partitions=6, frontend_attributes={tessera.meshes="{mesh = #sdy.mesh<[\"a\"=3, \"b\"=2]>, ordered = #sdy.mesh<[\"a\"=3, \"b\"=2], device_ids=[5, 0, 3, 1, 4, 2]>}"}
ENTRY %main () -> s32[3,5] {
  ROOT %iota = s32[3,5] iota(), iota_dimension=1, sharding={devices=[1,6]5,3,4,0,1,2}
})",
      op_table());
  const CheckReport report = check_partition(program, {});
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
}

std::map<std::string, std::int64_t> counts_of(const Case& c) {
  return collective_counts(partition(program_of(c)).program);
}

TEST(Partition, AResultMayUseTheAxisOfAnotherOperandsContractingDim) {
  // x is larger, and b shards its contracting dim. The columns of h are still sharded like those of w.
  const std::map<std::string, std::string> specs = {{"x", "-,b"}, {"w", "-,b"}};
  const Case c{"d, allow_spmd_sharding_propagation_to_output={true}", dot_module(40, 6, 9), "b=3", specs};
  const Program local = partition(program_of(c)).program;
  EXPECT_EQ(local.entry_computation().root_type().dims(), (Dims{40, 3}));
  expect_equal(c);
}

TEST(Partition, WorkIsNotReplicatedToSendLess) {
  // Gathering both operands would transfer 1632 bytes, and summing the result transfers 3072. But after a gather each
  // device would do all the multiplications.
  EXPECT_EQ(counts_of({"d", dot_module(8, 4, 64), "a=4", {{"x", "-,a"}, {"w", "a,-"}}}),
            (std::map<std::string, std::int64_t>{{"all-reduce", 1}}));
  // Only one operand is sharded along the contracting dim, and the result is replicated: gathering this operand is
  // better than sharding the other one.
  EXPECT_EQ(counts_of({"d", dot_module(8, 8, 8), "a=2", {{"x", "-,-"}, {"w", "a,-"}}}),
            (std::map<std::string, std::int64_t>{{"all-gather", 1}}));
}

TEST(Partition, AConstrainedResultIsComputedInItsSharding) {
  const Case c{"m",
               "ENTRY main { x = f32[6,9] parameter(0) one = f32[] constant(1) o = f32[6,9] broadcast(one), "
               "dimensions={}\nROOT y = f32[6,9] add(x, o) }",
               "a=3",
               {{"x", "a,-"}, {"y", "-,a"}}};
  const Program local = partition(program_of(c)).program;
  EXPECT_EQ(local.entry_computation()[local.entry_computation().root].op->name, "add");
  EXPECT_EQ(collective_counts(local), (std::map<std::string, std::int64_t>{{"all-to-all", 1}}));
  expect_equal(c);
}

TEST(Partition, SumsAreShardedOverIdleAxesUnlessThatNeedsMoreMemory) {
  using Counts = std::map<std::string, std::int64_t>;
  const auto sum = [&](int columns) {
    return Case{"m",
                kAdder + fmt::format("ENTRY main {{ x = f32[16,{0}] parameter(0) zero = f32[] constant(0)\n"
                                     "ROOT s = f32[16] reduce(x, zero), dimensions={{1}}, to_apply=add }}",
                                     columns),
                "a=3,b=4",
                {{"x", "-,b"}}};
  };
  PartitionOptions sparing{.keep_shardings = true};
  sparing.collectives.save_memory = true;
  for (const auto& [columns, expected] :
       {std::pair<int, Counts>{32, {{"all-reduce", 1}}}, {4096, {{"all-gather", 1}, {"all-reduce", 1}}}}) {
    const Program program = program_of(sum(columns));
    const Partitioned parts = partition(program, sparing);
    EXPECT_EQ(collective_counts(parts.program), expected) << columns;
    EXPECT_TRUE(check_partitioned(program, parts).passed) << columns;
    EXPECT_EQ(counts_of(sum(columns)), (Counts{{"all-gather", 1}, {"all-reduce", 1}})) << columns;
  }
}

TEST(Partition, RenamingAndReorderingChangeNoSharding) {
  const std::string one =
      "ENTRY main { x = f32[6,8] parameter(0) w = f32[8,6] parameter(1) v = f32[8,6] parameter(2)\n"
      "a = f32[6,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "b = f32[6,6] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "ROOT s = f32[6,6] add(a, b) }";
  const std::string two =
      "ENTRY main { x = f32[6,8] parameter(0) w = f32[8,6] parameter(1) v = f32[8,6] parameter(2)\n"
      "zz = f32[6,6] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "qq = f32[6,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "ROOT s = f32[6,6] add(qq, zz) }";
  const std::map<std::string, std::string> specs = {{"x", "a,-"}, {"w", "-,b"}, {"v", "b,-"}};
  const auto first = program_stats(partition(program_of({"p", one, "a=2,b=3", specs})).program);
  const auto second = program_stats(partition(program_of({"p", two, "a=2,b=3", specs})).program);
  EXPECT_EQ(first.total_collective_bytes, second.total_collective_bytes);
  EXPECT_EQ(first.flops_per_device, second.flops_per_device);
}

TEST(Partition, PartitioningAPartitionedProgramIsAnError) {
  const auto once = partition(program_of({"d", dot_module(4, 4, 4), "m=2", {{"x", "m,-"}}})).program;
  try {
    partition(once);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "d is already partitioned (it carries the partitioner's mark); give the global program instead");
  }
}

// example.determinism tests that meshes of few tokens then have equal shardings.
TEST(Partition, WithoutAComparisonOfCostsNothingIsAutomatic) {
  const Program program = program_of({"d", dot_module(7, 12, 9), "a=2,b=3", {{"x", "a,-"}, {"w", "b,-"}}});
  PartitionOptions options;
  options.compares_outcomes = false;
  EXPECT_TRUE(check_partitioned(program, partition(program, options)).passed);
  options.automatic.emplace();
  try {
    partition(program, options);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("TESSERA_PARTITION_SEARCH=0"), std::string::npos) << error.what();
  }
}

TEST(Annotate, UnknownNamesAndBadSpecsAreErrors) {
  const Mesh mesh = Mesh::parse("data=2,model=3");
  const Program program = parse_program("HloModule m\n" + dot_module(4, 4, 4), op_table());
  const auto message = [&](const std::string& name, const std::string& spec) -> std::string {
    try {
      annotate(program, mesh, name, spec);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("%y", "data,-"), "no value of main is named \"y\"; did you mean \"x\"?");
  EXPECT_EQ(message("x", "modle,-"),
            "partition spec {modle,-}: mesh has no axis \"modle\"; axes are data, model; did you mean \"model\"?\n  "
            "%x: f32[4,4]");
  EXPECT_EQ(message("x", "data"),
            "partition spec {data} has 1 entry, the tensor has 2 dims; give one entry per dim\n"
            "  %x: f32[4,4]");
  EXPECT_EQ(
      message("x", "data,data"),
      "partition spec {data,data} uses axis \"data\" of mesh<data=2, model=3> twice; an axis may shard only one dim\n"
      "  %x: f32[4,4]");
}

// Reshards of its operand, of its result and of its control predecessors keep the order.
TEST(Partition, ControlDependenciesAreKept) {
  const Program program = parse_program(R"(HloModule m, num_partitions=2
ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  a = f32[8,4] negate(x)
  b = f32[8,4] custom-call(x), custom_call_target="first", custom_call_has_side_effect=true
  s = f32[8,4] sine(a), control-predecessors={b}, sharding={devices=[1,2]<=[2]}
  d = f32[8,4] custom-call(s), custom_call_target="second", custom_call_has_side_effect=true, control-predecessors={a,b,x}
  t = (f32[8,4], s32[]) custom-call(x), custom_call_target="third", custom_call_has_side_effect=true, control-predecessors={d}
  u = s32[] get-tuple-element(t), index=1
  ROOT y = f32[8,4] cosine(s), control-predecessors={u}, sharding={devices=[2,1]<=[2]}
})",
                                        op_table());
  const Program made = partition(program).program;
  const Computation& entry = made.entry_computation();
  const auto waits = [&](std::string_view one, std::string_view other) {
    const auto id_of = [&](std::string_view name) {
      Id id = 0;
      while (id < entry.size() && entry[id].name != name) ++id;
      EXPECT_LT(id, entry.size()) << name << "\n" << print_program(made);
      return id;
    };
    const auto& before = entry[id_of(one)].control_predecessors;
    return std::count(before.begin(), before.end(), id_of(other)) == 1;
  };
  EXPECT_TRUE(waits("s", "b") && waits("d", "b") && waits("d", "a") && waits("t", "d") && waits("y", "t"))
      << print_program(made);
  EXPECT_FALSE(waits("a", "b"));
}

TEST(Partition, SumsOfNarrowElementsAreSharded) {
  for (const std::string type : {"s4", "u4", "f8e5m2"})
    for (const std::string op : {"add", "maximum"})
      expect_equal({"narrow",
                    fmt::format("by {{ a = {0}[] parameter(0) b = {0}[] parameter(1) ROOT s = {0}[] {1}(a, b) }}\n"
                                "ENTRY main {{ x = {0}[7,3] parameter(0) z = {0}[] constant(1)\n"
                                "ROOT r = {0}[3] reduce(x, z), dimensions={{0}}, to_apply=by }}",
                                type, op),
                    "a=2",
                    {{"x", "a,-"}}});
}

TEST(Partition, ManualAnnotationsAreWrittenForXla) {
  for (const std::string text : {"{manual}", "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}"}) {
    const Program program = parse_program(
        fmt::format("HloModule m, num_partitions=8\nENTRY e {{ ROOT a = f32[8,4] parameter(0), sharding={} }}", text),
        op_table());
    const std::string written = print_program(in_gspmd_form(program), {.for_xla = true});
    EXPECT_NE(written.find("sharding=" + text), std::string::npos) << written;
  }
}

// XLA refuses attributes of one op on other ops.
TEST(Partition, AttributesOfAnOpAreNotCopiedToInsertedOps) {
  const Case dot{"precise",
                 "ENTRY main { x = f32[5,6] parameter(0) w = f32[6,7] parameter(1)\nROOT h = f32[5,7] dot(x, w), "
                 "lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest} }",
                 "a=2,b=3",
                 {{"x", "b,a"}, {"w", "a,-"}, {"h", "-,b"}}};
  expect_equal(dot);
  const Program program = partition(program_of(dot)).program;
  int dots = 0;
  for (const auto& instruction : program.entry_computation().instructions) {
    const bool is_dot = instruction.op->name == "dot";
    dots += is_dot ? 1 : 0;
    EXPECT_EQ(instruction.notes != nullptr && !instruction.notes->other.empty(), is_dot) << instruction.name;
  }
  EXPECT_EQ(dots, 1);
  EXPECT_FALSE(collective_counts(program).empty());
}

TEST(Partition, AnOpMayHaveNoResult) {
  expect_equal({"print",
                "ENTRY main { x = f32[7,4] parameter(0)\nc = () custom-call(x), custom_call_target=\"print\", "
                "custom_call_has_side_effect=true\nROOT y = f32[7,4] negate(x) }",
                "a=2,b=3",
                {{"x", "a,b"}}});
}

// A replicated scalar is resharded to one device, and from there to devices in another order. All devices already have
// the value, so its inputs are not computed again.
TEST(Partition, AReplicatedScalarIsNotComputedAgainForAnotherMesh) {
  const std::string header =
      "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes=\"{mesh = #sdy.mesh<[\\\"a\\\"=2, "
      "\\\"b\\\"=2], "
      "device_ids=[1, 3, 2, 0]>, other = #sdy.mesh<[\\\"a\\\"=2, \\\"b\\\"=2], device_ids=[2, 3, 1, 0]>}\"}\n";
  const std::string elsewhere = "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@other, []>\"}";
  const std::vector<std::string> scalars = {
      "p = f32[6,6] parameter(0)\n n = s32[] get-dimension-size(p), dimensions={1}, sharding={maximal device=0}",
      "p = s32[] parameter(0)\n n = s32[] copy(p), sharding={maximal device=0}",
      "p = s32[] parameter(0)\n q = s32[] negate(p), sharding={replicated}\n n = s32[] copy(q), sharding={maximal "
      "device=0}",
      "p = s32[6] parameter(0), sharding={devices=[4]<=[4]}\n z = s32[] constant(0)\n q = s32[] reduce(p, z), "
      "dimensions={0}, "
      "to_apply={ a = s32[] parameter(0) b = s32[] parameter(1) ROOT s = s32[] add(a, b) }, sharding={replicated}\n"
      "n = s32[] copy(q), sharding={maximal device=0}"};
  for (const std::string& scalar : scalars)
    for (const std::string reader : {"copy(n)", "negate(n)"}) {
      const Program program = parse_program(header + "ENTRY e {\n" + scalar + "\n k = s32[] " + reader + ", " +
                                                elsewhere + "\n ROOT r = (s32[], s32[]) tuple(n, k) }",
                                            op_table());
      const Program local = partition(program).program;
      EXPECT_EQ(local.entry_computation().parameters.size(), 1U) << print_program(local);
      EXPECT_EQ(difference(local, parse_program(print_program(local), op_table())), "");
      const CheckReport report = check_partition(program);
      EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n")) << print_program(local);
    }
}

}  // namespace
}  // namespace tessera

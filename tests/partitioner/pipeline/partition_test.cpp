// SPDX-License-Identifier: Apache-2.0
// The partitioned program equals the unpartitioned one, holds the collectives it should and no others.
#include "tessera/partitioner/pipeline/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"

namespace tessera {
namespace {

// A module over the parameters, annotated; `body` holds the instructions, the last one is the root.
struct Case {
  std::string name;
  std::string body;
  std::string mesh;
  std::map<std::string, std::string> specs;
};

Program program_of(const Case& c) {
  const Mesh mesh = Mesh::parse(c.mesh);
  Program program = parse_program("HloModule " + c.name + "\n" + c.body, op_table());
  program.num_partitions = mesh.device_count();
  program.meshes = {mesh};
  for (const auto& [name, spec] : c.specs) program = annotate(program, mesh, name, spec);
  return program;
}

std::map<std::string, std::int64_t> collective_counts(const Program& program) {
  std::map<std::string, std::int64_t> out;
  for (const auto& kind : program_stats(program).collectives) out[kind.opcode] = kind.count;
  return out;
}

void expect_equal(const Case& c) {
  const Program program = program_of(c);
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const CheckReport report = check_partition(program, {.seed = seed, .trip_limit = 50, .run = nullptr});
    EXPECT_TRUE(report.passed) << c.name << " on " << c.mesh << ": " << join(report.failures, "\n") << "\n"
                               << print_program(partition(program).program);
    EXPECT_GT(report.values_compared, 0);
  }
}

const std::string kAdder = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n";
const std::string kMaximum = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }\n";

std::string dot_module(int m, int k, int n) {
  return fmt::format(
      "ENTRY main {{ x = f32[{0},{1}] parameter(0) w = f32[{1},{2}] parameter(1)\n"
      "ROOT h = f32[{0},{2}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}",
      m, k, n);
}

TEST(Partition, DotIsRightForEveryShardingOfItsDims) {
  const std::vector<std::string> specs = {"-,-", "a,-", "-,a", "b,a", "a+b,-", "-,b+a"};
  for (const auto& x : specs)
    for (const auto& w : specs)
      for (const auto& h : specs)
        expect_equal({"dot", dot_module(7, 5, 11), "a=2,b=3", {{"x", x}, {"w", w}, {"h", h}}});
}

TEST(Partition, DotOverASharedContractionIsOneReduction) {
  const auto whole =
      partition(program_of({"d", dot_module(8, 6, 4), "m=2", {{"x", "-,m"}, {"w", "m,-"}, {"h", "-,-"}}}));
  EXPECT_EQ(collective_counts(whole.program), (std::map<std::string, std::int64_t>{{"all-reduce", 1}}));
  const auto scattered =
      partition(program_of({"d", dot_module(8, 6, 4), "m=2", {{"x", "-,m"}, {"w", "m,-"}, {"h", "m,-"}}}));
  EXPECT_EQ(collective_counts(scattered.program), (std::map<std::string, std::int64_t>{{"reduce-scatter", 1}}));
}

TEST(Partition, MegatronMlpHoldsOneAllReduce) {
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

TEST(Partition, AnOpenDimOfAnAnnotationTakesWhatPropagationFinds) {
  const std::string body =
      "ENTRY main { x = f32[6,5] parameter(0) w = f32[5,7] parameter(1)\n"
      "h = f32[6,7] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "ROOT y = f32[6,7] tanh(h) }";
  const Case c{"open", body, "data=2,model=3", {{"x", "data,-"}, {"h", "?,model"}, {"y", "data,model"}}};
  expect_equal(c);
  EXPECT_EQ(collective_counts(partition(program_of(c)).program), (std::map<std::string, std::int64_t>{}));
  const Case closed{"closed", body, "data=2,model=3", {{"x", "data,-"}, {"h", "-,model"}, {"y", "data,model"}}};
  // What the closed dim asks for is given back at once: a later pass sees that.
  EXPECT_EQ(collective_counts(partition(program_of(closed), {.skip_passes = {"simplify-collectives"}}).program).size(),
            1U);
  EXPECT_EQ(collective_counts(partition(program_of(closed)).program), (std::map<std::string, std::int64_t>{}));
}

// A sum of two partial values, one of which is tiled over an axis that the other is partial over: reducing over that axis first moves less
// than gathering the tiled one.
TEST(Partition, PartialSumsAreAddedOverTheAxesBothHave) {
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

TEST(Partition, SoftmaxOverAShardedDimReducesMaximumAndSum) {
  const std::string body =
      kAdder + kMaximum +
      "ENTRY main { x = f32[5,7] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0)\n"
      "m = f32[5] reduce(x, low), dimensions={1}, to_apply=max\n"
      "mb = f32[5,7] broadcast(m), dimensions={0}\n"
      "d = f32[5,7] subtract(x, mb)\n"
      "e = f32[5,7] exponential(d)\n"
      "s = f32[5] reduce(e, zero), dimensions={1}, to_apply=add\n"
      "sb = f32[5,7] broadcast(s), dimensions={0}\n"
      "ROOT y = f32[5,7] divide(e, sb) }";
  for (const std::string spec : {"-,a", "b,a", "a,b", "-,a+b", "a+b,-"})
    expect_equal({"softmax", body, "a=2,b=3", {{"x", spec}, {"y", spec}}});
  const auto parts = partition(program_of({"softmax", body, "a=2", {{"x", "-,a"}, {"y", "-,a"}}}));
  EXPECT_EQ(collective_counts(parts.program), (std::map<std::string, std::int64_t>{{"all-reduce", 2}}));
}

TEST(Partition, ReduceWithAnInitThatIsNoIdentityCountsItOnce) {
  const std::string body = kAdder +
                           "ENTRY main { x = f32[7,5] parameter(0) i = f32[] constant(3)\n"
                           "ROOT y = f32[5] reduce(x, i), dimensions={0}, to_apply=add }";
  for (const std::string spec : {"a,-", "b,a", "a+b,-"}) expect_equal({"init", body, "a=2,b=3", {{"x", spec}}});
}

TEST(Partition, ReshapeTransposeAndConcatenateAreRight) {
  const std::string body =
      "ENTRY main { x = f32[6,10] parameter(0) y = f32[6,3] parameter(1)\n"
      "r = f32[2,3,10] reshape(x) t = f32[10,2,3] transpose(r), dimensions={2,0,1}\n"
      "f = f32[60] reshape(t) g = f32[6,10] reshape(f)\n"
      "ROOT c = f32[6,13] concatenate(g, y), dimensions={1} }";
  for (const std::string spec : {"a,-", "b,-", "a+b,-", "-,a", "b,a"})
    expect_equal({"moves", body, "a=2,b=3", {{"x", spec}, {"c", "a,b"}}});
}

TEST(Partition, WhileLoopKeepsItsStateSharded) {
  const std::string body =
      "cond { p = (s32[], f32[7,4]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)\n"
      "ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { p = (s32[], f32[7,4]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)\n"
      "x = f32[7,4] get-tuple-element(p), index=1 j = s32[] add(i, one)\n"
      "h = f32[7,7] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
      "y = f32[7,4] dot(h, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} t = f32[7,4] tanh(y)\n"
      "ROOT r = (s32[], f32[7,4]) tuple(j, t) }\n"
      "ENTRY main { x = f32[7,4] parameter(0) z = s32[] constant(0) s = (s32[], f32[7,4]) tuple(z, x)\n"
      "w = (s32[], f32[7,4]) while(s), condition=cond, body=body ROOT y = f32[7,4] get-tuple-element(w), index=1 }";
  for (const std::string spec : {"a,-", "b,a", "-,a"}) expect_equal({"loop", body, "a=2,b=3", {{"x", spec}}});
}

TEST(Partition, EmbeddingTableStaysShardedOverTheVocabulary) {
  const std::string body =
      "ENTRY main { e = f32[11,6] parameter(0) ids = s32[5] parameter(1)\n"
      "ROOT y = f32[5,6] gather(e, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},\n"
      "  index_vector_dim=1, slice_sizes={1,6} }";
  for (const std::string spec : {"a,-", "b,-", "a,b", "-,b", "a+b,-"})
    expect_equal({"embedding", body, "a=2,b=3", {{"e", spec}, {"y", "-,-"}}});
  const auto parts = partition(program_of({"embedding", body, "a=2", {{"e", "a,-"}}}));
  EXPECT_EQ(collective_counts(parts.program), (std::map<std::string, std::int64_t>{{"all-reduce", 1}}));
}

// (largest element, its first place) of the rows.
std::string argmax_module(int rows, int columns, const std::string& init, const std::string& key) {
  return fmt::format(R"(
argmax {{ a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT  eq = pred[] compare(a, b), direction=EQ  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)  first = pred[] or(gt, tie)  m = f32[] {3}  k = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(m, k) }}
ENTRY main {{ x = f32[{0},{1}] parameter(0) i = s32[{0},{1}] iota(), iota_dimension=1
  low = f32[] constant({2}) none = s32[] constant(-1)
  ROOT r = (f32[{0}], s32[{0}]) reduce(x, i, low, none), dimensions={{1}}, to_apply=argmax }})",
                     rows, columns, init, key);
}

TEST(Partition, ArgmaxOverAShardedDimGathersOnePairPerDevice) {
  const auto module = argmax_module(6, 24, "-inf", "select(first, a, b)");
  for (const std::string spec : {"-,a", "-,b", "a,b", "-,a+b", "b,a"})
    expect_equal({"argmax", module, "a=2,b=3", {{"x", spec}}});
  const auto parts = partition(program_of({"argmax", module, "a=4", {{"x", "-,a"}}})).program;
  EXPECT_EQ(collective_counts(parts), (std::map<std::string, std::int64_t>{{"all-gather", 2}}));
  EXPECT_EQ(program_stats(parts).total_collective_bytes, 2 * 3 * 6 * 4);
  expect_equal({"uneven", argmax_module(5, 7, "-inf", "select(first, a, b)"), "a=2,b=3", {{"x", "b,a"}}});
}

TEST(Partition, AnInitThatWouldCountTwiceIsMetOnce) {
  for (const std::string spec : {"-,a", "a,b"})
    expect_equal({"sum_and_argmax", argmax_module(6, 12, "1", "add(a, b)"), "a=2,b=3", {{"x", spec}}});
}

// 13 rows over 2 or 4 devices: hiding the padding is a few operations, bringing whole columns together many bytes.
TEST(Partition, PaddingOfASummedDimIsHiddenWhereThatIsLessThanMovingIt) {
  const std::string body = kAdder +
                           "ENTRY main { x = f32[13,16] parameter(0) z = f32[] constant(0)\n"
                           "ROOT p = f32[16] reduce(x, z), dimensions={0}, to_apply=add }";
  for (const auto& [spec, bytes] : {std::pair{"a,b", 32}, {"a+b,-", 48}}) {
    const Case c{"uneven", body, "a=2,b=2", {{"x", spec}, {"p", "a+b"}}};
    expect_equal(c);
    EXPECT_EQ(program_stats(partition(program_of(c)).program).total_collective_bytes, bytes) << spec;
  }
}

// One row from the neighbour, and nothing is computed.
TEST(Partition, AShiftThatIsWrittenAsPadAndSliceBringsWhatItShifts) {
  const Case c{"shift",
               "ENTRY main { x = f32[8,16] parameter(0) z = f32[] constant(0)\n"
               "p = f32[9,16] pad(x, z), padding=1_0x0_0\nROOT s = f32[8,16] slice(p), slice={[0:8], [0:16]} }",
               "a=4",
               {{"x", "a,-"}, {"s", "a,-"}}};
  expect_equal(c);
  const Program parts = partition(program_of(c)).program;
  EXPECT_EQ(program_stats(parts).total_collective_bytes, 16 * 4);
  EXPECT_EQ(program_stats(parts).flops_per_device, 0);
}

// n is 8 everywhere, though it belongs to a group: only l is gathered.
TEST(Partition, AConstantInAShardingGroupIsNeitherComputedNorMoved) {
  const Program program = parse_program(
      "HloModule m, num_partitions=4\nENTRY e { a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4] shard_as 1}\n"
      "z = f32[] constant(2)\nb = f32[8,8] broadcast(z), dimensions={}, sharding={unknown shard_as 1}\n"
      "c = f32[8,8] multiply(b, b)\nl = f32[8,8] transpose(a), dimensions={1,0}, sharding={unknown shard_like 2}\n"
      "n = f32[8,8] add(c, c), sharding={unknown shard_like 2}\nROOT t = (f32[8,8], f32[8,8]) tuple(n, l) }",
      op_table());
  const CheckReport report = check_partition(program, {});
  EXPECT_TRUE(report.passed) << join(report.failures, "\n");
  const ProgramStats stats = program_stats(partition(program).program);
  EXPECT_EQ(stats.total_collective_bytes, 6 * 8 * 4);
  EXPECT_EQ(stats.flops_per_device, 0);
}

// Without a channel ids are replicas, and there is one.
TEST(Partition, CollectivesOverTheOnlyReplicaGiveWhatTheyAreGiven) {
  const auto module = [](const std::string& collective) {
    return "HloModule m, num_partitions=4\n" + kAdder +
           "ENTRY main { x = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\nr = f32[8,6] " + collective +
           "\nROOT y = f32[8,6] add(r, x) }";
  };
  for (const std::string collective :
       {"all-reduce(x), replica_groups={}, to_apply=add", "all-reduce(x), replica_groups={{0}}, to_apply=add",
        "all-gather(x), dimensions={0}, replica_groups={{0}}", "collective-permute(x), source_target_pairs={{0,0}}"}) {
    const Program program = parse_program(module(collective), op_table());
    const CheckReport report = check_partition(program, {});
    EXPECT_TRUE(report.passed) << collective << ": " << join(report.failures, "\n");
    EXPECT_EQ(collective_counts(partition(program).program), (std::map<std::string, std::int64_t>{{"all-gather", 1}}));
  }
  for (const std::string collective : {"all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, to_apply=add",
                                       "all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add"})
    EXPECT_THROW(partition(parse_program(module(collective), op_table())), Error) << collective;
}

// What is only computed elementwise needs no position.
TEST(Partition, PositionsBeyond32BitsAreAnErrorWhereTheyAreNeeded) {
  const auto text = [](const std::string& op) {
    return "HloModule m, num_partitions=4\nENTRY main { x = f32[8589934592] parameter(0), "
           "sharding={devices=[4]<=[4]}\nROOT y = " +
           op + ", sharding={devices=[4]<=[4]} }";
  };
  const Program local = partition(parse_program(text("f32[8589934592] negate(x)"), op_table())).program;
  EXPECT_EQ(local.entry_computation().root_type().dim(0), 2147483648);
  for (const std::string op :
       {"s32[8589934592] iota(), iota_dimension=0", "f32[8589934590] slice(x), slice={[1:8589934591]}"}) {
    try {
      partition(parse_program(text(op), op_table()));
      ADD_FAILURE() << op << " was partitioned";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("count positions in s32"), std::string::npos) << error.what();
    }
  }
}

TEST(Partition, ASortedDimThatIsShardedTradesPlacesWithAnother) {
  const std::string body =
      "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }\n"
      "ENTRY main { x = f32[6,12] parameter(0) ROOT y = f32[6,12] sort(x), dimensions={1}, to_apply=less }";
  for (const std::string spec : {"-,a", "-,b", "a,b", "-,a+b", "b,a"})
    expect_equal({"sort", body, "a=2,b=3", {{"x", spec}, {"y", spec}}});
  const auto parts = partition(program_of({"sort", body, "a=3", {{"x", "-,a"}, {"y", "-,a"}}})).program;
  EXPECT_EQ(collective_counts(parts), (std::map<std::string, std::int64_t>{{"all-to-all", 2}}));
}

TEST(Partition, ColumnsOfRowsThatAreShardedAreTakenWhereTheRowsAre) {
  const std::string header = "HloModule columns, num_partitions=4, allow_spmd_sharding_propagation_to_output={true}\n";
  const std::string types =
      "t = f32[8,20] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "i = s32[12] parameter(1), sharding={devices=[4]<=[4]}\n";
  const Program taken = parse_program(
      header + "ENTRY main {" + types +
          "ROOT g = f32[8,12] gather(t, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
          "index_vector_dim=1, slice_sizes={8,1} }",
      op_table());
  const Program set =
      parse_program(header + "keep { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }\nENTRY main {" + types +
                        "u = f32[8,12] parameter(2), sharding={devices=[4,1]<=[4]}\n"
                        "ROOT s = f32[8,20] scatter(t, i, u), update_window_dims={0}, inserted_window_dims={1}, "
                        "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=keep }",
                    op_table());
  for (const Program* program : {&taken, &set}) {
    EXPECT_EQ(program_stats(partition(*program).program).total_collective_bytes, 3 * 3 * 4);  // of the indices
    EXPECT_TRUE(check_partition(*program, {}).passed);
  }
}

TEST(Partition, CallsWithBatchDimsAreSharedOutOverThese) {
  const std::string text =
      "HloModule solve, num_partitions=4\nENTRY main {\n"
      "a = f32[8,5,5] parameter(0), sharding={devices=[4,1,1]<=[4]}  b = f32[8,5,3] parameter(1), "
      "sharding={devices=[4,1,1]<=[4]}\n"
      "ROOT x = f32[8,5,3] custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\", "
      "sharding={devices=[4,1,1]<=[4]}BATCH }";
  const auto program_with = [&](const std::string& batch) {
    std::string module = text;
    return parse_program(module.replace(module.find("BATCH"), 5, batch), op_table());
  };
  const Program batched = program_with(", frontend_attributes={num_batch_dims=\"1\"}");
  EXPECT_EQ(program_stats(partition(batched).program).total_collective_bytes, 0);
  EXPECT_TRUE(check_partition(batched, {}).passed);
  EXPECT_EQ(print_program(parse_program(print_program(batched), op_table())), print_program(batched));
  EXPECT_GT(program_stats(partition(program_with("")).program).total_collective_bytes, 0);
}

TEST(Partition, ARowThatAnotherDeviceHoldsIsReadAsZerosWithoutAMask) {
  const std::string body =
      "ENTRY main { x = f32[12,6] parameter(0) i = s32[] parameter(1) z = s32[] constant(0)\n"
      "ROOT r = f32[1,6] dynamic-slice(x, i, z), dynamic_slice_sizes={1,6} }";
  for (const std::string spec : {"a,-", "a,b", "b+a,-"}) expect_equal({"row", body, "a=2,b=3", {{"x", spec}}});
  EXPECT_EQ(program_stats(partition(program_of({"row", body, "a=4", {{"x", "a,-"}}})).program).flops_per_device, 0);
}

TEST(Partition, RunningMaximumAlongAShardedDimNeedsNoMask) {
  const std::string body = kMaximum +
                           "ENTRY main { x = f32[3,12] parameter(0) low = f32[] constant(-inf)\n"
                           "ROOT y = f32[3,12] reduce-window(x, low), window={size=1x12 pad=0_0x11_0}, to_apply=max }";
  for (const std::string spec : {"-,a", "-,b", "-,a+b"})
    expect_equal({"cummax", body, "a=2,b=3", {{"x", spec}, {"y", spec}}});
  const auto parts = partition(program_of({"cummax", body, "a=4", {{"x", "-,a"}, {"y", "-,a"}}})).program;
  for (const auto& instruction : parts.entry_computation().instructions) EXPECT_NE(instruction.op->name, "select");
}

TEST(Partition, AValueThatLiesTwoWaysKeepsWhatOneOfThemCallsPadding) {
  // Over 4 tiles two of the four devices hold padding; over the 2 of the permuted copy they hold elements.
  const Program program = parse_program(R"(HloModule two_ways, num_partitions=4
ENTRY %main (x: f64[2]) -> (f64[2], f64[2]) {
  %x = f64[2] parameter(0)
  %y = f64[2] sine(%x), sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  ROOT %both = (f64[2], f64[2]) tuple(%y, %y), sharding={{devices=[2,2]<=[4] last_tile_dim_replicate}, {devices=[4]<=[4]}}
})",
                                        op_table());
  const CheckReport report = check_partition(program, {});
  EXPECT_TRUE(report.passed) << join(report.failures, "\n");
}

TEST(Partition, AnOpStandsWhereItsOwnMeshSaysNotTheFirst) {
  const Program program = parse_program(
      R"(HloModule two_meshes, num_partitions=6, frontend_attributes={tessera.meshes="{mesh = #sdy.mesh<[\"a\"=3, \"b\"=2]>, ordered = #sdy.mesh<[\"a\"=3, \"b\"=2], device_ids=[5, 0, 3, 1, 4, 2]>}"}
ENTRY %main () -> s32[3,5] {
  ROOT %iota = s32[3,5] iota(), iota_dimension=1, sharding={devices=[1,6]5,3,4,0,1,2}
})",
      op_table());
  const CheckReport report = check_partition(program, {});
  EXPECT_TRUE(report.passed) << join(report.failures, "\n");
}

std::map<std::string, std::int64_t> counts_of(const Case& c) {
  return collective_counts(partition(program_of(c)).program);
}

TEST(Partition, AResultTakesTheAxisOfADimThatAnotherOperandSumsOver) {
  // x is the larger and has b where both sum; the columns of h lie as those of w all the same.
  const std::map<std::string, std::string> specs = {{"x", "-,b"}, {"w", "-,b"}};
  const Case c{"d, allow_spmd_sharding_propagation_to_output={true}", dot_module(40, 6, 9), "b=3", specs};
  const Program local = partition(program_of(c)).program;
  EXPECT_EQ(local.entry_computation().root_type().dims(), (Dims{40, 3}));
  expect_equal(c);
}

TEST(Partition, WorkIsNotDoneTwiceToSendLess) {
  // To gather both operands would be 1632 bytes, to sum the result is 3072: but then each device multiplies all.
  EXPECT_EQ(counts_of({"d", dot_module(8, 4, 64), "a=4", {{"x", "-,a"}, {"w", "a,-"}}}),
            (std::map<std::string, std::int64_t>{{"all-reduce", 1}}));
  // One operand alone is cut along the sum, and the result is whole: to share it out would be to cut the other one first.
  EXPECT_EQ(counts_of({"d", dot_module(8, 8, 8), "a=2", {{"x", "-,-"}, {"w", "a,-"}}}),
            (std::map<std::string, std::int64_t>{{"all-gather", 1}}));
}

TEST(Partition, AResultThatIsBoundIsMadeWhereItMustLie) {
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

TEST(Partition, SumsAreSharedOutOverIdleAxesUnlessThatTakesMoreMemory) {
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
  sparing.collectives.spare_memory = true;
  for (const auto& [columns, expected] :
       {std::pair<int, Counts>{32, {{"all-reduce", 1}}}, {4096, {{"all-gather", 1}, {"all-reduce", 1}}}}) {
    const Program program = program_of(sum(columns));
    const Partitioned parts = partition(program, sparing);
    EXPECT_EQ(collective_counts(parts.program), expected) << columns;
    EXPECT_TRUE(check_partitioned(program, parts).passed) << columns;
    EXPECT_EQ(counts_of(sum(columns)), (Counts{{"all-gather", 1}, {"all-reduce", 1}})) << columns;
  }
}

TEST(Partition, RenamingAndShufflingChangesNoSharding) {
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
            "partition spec {data} has 1 entry, the tensor has 2 dims; give one entry per dim (the spec is too short)\n"
            "  %x: f32[4,4]");
  EXPECT_EQ(
      message("x", "data,data"),
      "partition spec {data,data} uses axis \"data\" of mesh<data=2, model=3> twice; an axis may shard one dim only\n"
      "  %x: f32[4,4]");
}

// Behind a reshard of its operand, of its result and of what it waits for.
TEST(Partition, WhatMustRunBeforeWhatStaysSo) {
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

TEST(Partition, SumsOfNarrowElementsAreSharedOut) {
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

TEST(Partition, WhatIsAnnotatedManualIsWrittenSoForXla) {
  for (const std::string text : {"{manual}", "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}"}) {
    const Program program = parse_program(
        fmt::format("HloModule m, num_partitions=8\nENTRY e {{ ROOT a = f32[8,4] parameter(0), sharding={} }}", text),
        op_table());
    const std::string written = print_program(spelled_as_gspmd(program), {.for_xla = true});
    EXPECT_NE(written.find("sharding=" + text), std::string::npos) << written;
  }
}

// What XLA reads of an op it refuses on others.
TEST(Partition, AttributesOfAnOpStayWithIt) {
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

TEST(Partition, AnOpMayHaveNoResultAtAll) {
  expect_equal({"print",
                "ENTRY main { x = f32[7,4] parameter(0)\nc = () custom-call(x), custom_call_target=\"print\", "
                "custom_call_has_side_effect=true\nROOT y = f32[7,4] negate(x) }",
                "a=2,b=3",
                {{"x", "a,b"}}});
}

// A scalar that every device has, moved to one device and from there to the devices in another order: it is there already, and what it
// is computed from is not computed again.
TEST(Partition, AScalarOfEveryDeviceIsNotComputedAgainForAnotherMesh) {
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
      EXPECT_TRUE(report.passed) << join(report.failures, "\n") << print_program(local);
    }
}

}  // namespace
}  // namespace tessera

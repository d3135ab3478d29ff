// SPDX-License-Identifier: Apache-2.0
// Single ops over sharded dims: the partitioned program equals the unpartitioned one and contains the expected
// collectives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partitioner/pipeline/partition_cases.h"

namespace tessera {
namespace {

using namespace partition_cases;  // NOLINT(google-build-using-namespace)

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

TEST(Partition, ReduceAddsAnInitThatIsNotTheIdentityOnce) {
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

// Returns (largest element, its first position) for each row.
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

TEST(Partition, TheInitOfATupleReductionIsUsedOnce) {
  for (const std::string spec : {"-,a", "a,b"})
    expect_equal({"sum_and_argmax", argmax_module(6, 12, "1", "add(a, b)"), "a=2,b=3", {{"x", spec}}});
}

// 13 rows on 2 or 4 devices: masking the padding takes a few operations; resharding to complete columns transfers many
// bytes.
TEST(Partition, PaddingOfAReducedDimIsMaskedIfReshardingCostsMore) {
  const std::string body = kAdder +
                           "ENTRY main { x = f32[13,16] parameter(0) z = f32[] constant(0)\n"
                           "ROOT p = f32[16] reduce(x, z), dimensions={0}, to_apply=add }";
  for (const auto& [spec, bytes] : {std::pair{"a,b", 32}, {"a+b,-", 48}}) {
    const Case c{"uneven", body, "a=2,b=2", {{"x", spec}, {"p", "a+b"}}};
    expect_equal(c);
    EXPECT_EQ(program_stats(partition(program_of(c)).program).total_collective_bytes, bytes) << spec;
  }
}

// One row comes from the neighbour; the result needs no computation.
TEST(Partition, AShiftAsPadAndSliceReceivesOnlyTheShiftedRows) {
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

// All elements of n are 8, although n belongs to a group: only l is gathered.
TEST(Partition, AConstantInAShardingGroupIsNeitherComputedNorResharded) {
  const Program program = parse_program(
      "HloModule m, num_partitions=4\nENTRY e { a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4] shard_as 1}\n"
      "z = f32[] constant(2)\nb = f32[8,8] broadcast(z), dimensions={}, sharding={unknown shard_as 1}\n"
      "c = f32[8,8] multiply(b, b)\nl = f32[8,8] transpose(a), dimensions={1,0}, sharding={unknown shard_like 2}\n"
      "n = f32[8,8] add(c, c), sharding={unknown shard_like 2}\nROOT t = (f32[8,8], f32[8,8]) tuple(n, l) }",
      op_table());
  const CheckReport report = check_partition(program, {});
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  const ProgramStats stats = program_stats(partition(program).program);
  EXPECT_EQ(stats.total_collective_bytes, 6 * 8 * 4);
  EXPECT_EQ(stats.flops_per_device, 0);
}

using Counts = std::map<std::string, std::int64_t>;

// Without a channel the ids are replicas, and there is one replica.
TEST(Partition, CollectivesOverTheOnlyReplicaReturnTheirOperands) {
  const auto module = [](const std::string& collective) {
    return "HloModule m, num_partitions=4\n" + kAdder +
           "ENTRY main { x = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\n" + collective +
           "\nROOT y = f32[8,6] add(r, x) }";
  };
  for (const std::string collective :
       {"r = f32[8,6] all-reduce(x), replica_groups={}, to_apply=add",
        "r = f32[8,6] all-reduce(x), replica_groups={{0}}, to_apply=add",
        "r = f32[8,6] all-gather(x), dimensions={0}, replica_groups={{0}}",
        "r = f32[8,6] collective-permute(x), source_target_pairs={{0,0}}",
        "r = f32[8,6] collective-permute(x), source_target_pairs={}",
        "t = (f32[8,6]) all-to-all(x), replica_groups={{0}} r = f32[8,6] get-tuple-element(t), index=0"}) {
    const Program program = parse_program(module(collective), op_table());
    const CheckReport report = check_partition(program, {});
    EXPECT_TRUE(report.passed) << collective << ": " << fmt::format("{}", fmt::join(report.failures, "\n"));
    const bool is_zero = collective.ends_with("pairs={}");  // then y is x, which stays sharded
    EXPECT_EQ(collective_counts(partition(program).program), is_zero ? Counts() : (Counts{{"all-gather", 1}}));
  }
  for (const std::string collective :
       {"r = f32[8,6] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, to_apply=add",
        "r = f32[8,6] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add"})
    EXPECT_THROW(partition(parse_program(module(collective), op_table())), Error) << collective;
}

// Values that are only computed elementwise need no positions.
TEST(Partition, PositionsBeyond32BitsAreAnErrorIfTheyAreNeeded) {
  const auto text = [](const std::string& op) {
    return "HloModule m, num_partitions=4\nENTRY main { x = f32[8589934592] parameter(0), "
           "sharding={devices=[4]<=[4]}\nROOT y = " +
           op + ", sharding={devices=[4]<=[4]} }";
  };
  const Program local = partition(parse_program(text("f32[8589934592] negate(x)"), op_table())).program;
  EXPECT_EQ(local.entry_computation().root_type().dim(0), 2147483648);
  try {
    partition(parse_program(text("s32[8589934592] iota(), iota_dimension=0"), op_table()));
    ADD_FAILURE() << "was partitioned";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("count positions in s32"), std::string::npos) << error.what();
  }
}

TEST(Partition, AShardedSortDimIsReshardedToAnotherDim) {
  const std::string body =
      "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }\n"
      "ENTRY main { x = f32[6,12] parameter(0) ROOT y = f32[6,12] sort(x), dimensions={1}, to_apply=less }";
  for (const std::string spec : {"-,a", "-,b", "a,b", "-,a+b", "b,a"})
    expect_equal({"sort", body, "a=2,b=3", {{"x", spec}, {"y", spec}}});
  const auto parts = partition(program_of({"sort", body, "a=3", {{"x", "-,a"}, {"y", "-,a"}}})).program;
  EXPECT_EQ(collective_counts(parts), (std::map<std::string, std::int64_t>{{"all-to-all", 2}}));
}

TEST(Partition, ColumnsOfShardedRowsAreGatheredAndScatteredLocally) {
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
    EXPECT_EQ(program_stats(partition(*program).program).total_collective_bytes, 3 * 3 * 4);  // for the indices
    EXPECT_TRUE(check_partition(*program, {}).passed);
  }
}

TEST(Partition, CallsWithBatchDimsAreShardedOverThem) {
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

TEST(Partition, ARowOfAnotherDeviceIsReadAsZerosWithoutAMask) {
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

TEST(Partition, AValueWithTwoShardingsKeepsElementsThatArePaddingInOne) {
  // With 4 tiles, two of the four devices hold padding. With the 2 tiles of the permuted sharding they hold elements.
  const Program program = parse_program(R"(HloModule two_ways, num_partitions=4
ENTRY %main (x: f64[2]) -> (f64[2], f64[2]) {
  %x = f64[2] parameter(0)
  %y = f64[2] sine(%x), sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  ROOT %both = (f64[2], f64[2]) tuple(%y, %y), sharding={{devices=[2,2]<=[4] last_tile_dim_replicate}, {devices=[4]<=[4]}}
})",
                                        op_table());
  const CheckReport report = check_partition(program, {});
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The computation of a device: only its part of the work, and no unnecessary masks.
#include <gtest/gtest.h>

#include "partitioner/reshard_insertion/annotated_programs.h"

namespace tessera {
namespace {

using namespace annotated_programs;  // NOLINT(google-build-using-namespace)

// Axis a shards k in both operands, and the required rows of the result. Axis b is otherwise unused, so it shards the
// rows during the computation.
TEST(WorkPerDevice, IdleAxesShardTheResultWhileASumUsesItsAxis) {
  const std::string dot =
      "ENTRY main { x = f32[8,6] parameter(0) w = f32[6,10] parameter(1)\n"
      "ROOT h = f32[8,10] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
  for (const auto& [mesh, parts] : {std::pair{"a=2,b=2", 4}, {"a=2,b=3", 2}}) {  // 3 devices cannot form 2 tiles
    const Program program =
        annotated("HloModule m\n" + dot, Mesh::parse(mesh), {{"x", "-,a"}, {"w", "a,-"}, {"h", "a,-"}});
    checked(program);
    EXPECT_EQ(program_stats(partition(program).program).flops_per_device, 2 * 8 * 6 * 10 / parts) << mesh;
  }
}

// The sum must be replicated immediately. Adding x on one device only would need a mask for no gain.
TEST(WorkPerDevice, AReplicatedSumIsReducedBeforeItIsAdded) {
  const std::string text = checked(parse_program(
      "HloModule m, num_partitions=3, allow_spmd_sharding_propagation_to_output={true}\n"
      "ENTRY main { x = f32[4,6] parameter(0) y = f32[4,6] parameter(1), sharding={devices=[1,3]<=[3]}\n"
      "w = f32[6,6] parameter(2), sharding={devices=[3,1]<=[3]}\n"
      "d = f32[4,6] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\ns = f32[4,6] add(x, d)\n"
      "m = f32[4,6] custom-call(s), custom_call_target=\"Sharding\", sharding={devices=[1,1,3]<=[3] "
      "last_tile_dim_replicate}\nROOT t = f32[4,6] tanh(m) }",
      op_table()));
  EXPECT_TRUE(has(text, "all-reduce")) << text;
  EXPECT_FALSE(has(text, "select(")) << text;
}

// The difference needs y sharded by rows. The sum reads the same copy, although a sum of partial values would receive
// fewer bytes than another all-to-all.
TEST(WorkPerDevice, AnOpReadsTheCopyThatALaterOpNeeds) {
  for (const auto& [columns, devices] : {std::pair{14, 7}, {12, 3}, {10, 4}}) {
    const Program program = annotated(
        fmt::format("HloModule m\nsum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n"
                    "ENTRY e {{ x = f32[48,{0}] parameter(0) z = f32[] constant(0)\n"
                    "y = f32[48,{0}] exponential(x) m = f32[48] reduce(y, z), dimensions={{1}}, to_apply=sum\n"
                    "t = f32[48] tanh(m) b = f32[48,{0}] broadcast(t), dimensions={{0}}\n"
                    "ROOT s = f32[48,{0}] subtract(y, b) }}",
                    columns),
        Mesh::parse(fmt::format("a={}", devices)), {{"x", "-,a"}, {"s", "a,-"}});
    const std::string text = checked(program);
    EXPECT_TRUE(has(text, "all-to-all(")) << text;
    EXPECT_EQ(program_stats(partition(program).program).collectives.size(), 1U) << text;
  }
}

// The first device receives no row, so its row is zero. The padding of the last device's rows is not read.
TEST(WorkPerDevice, AShiftOfUnevenRowsNeedsNoMask) {
  const Program program = annotated(
      "HloModule m\nENTRY e { x = f32[13,4] parameter(0) z = f32[] constant(0)\n"
      "ROOT s = f32[13,4] pad(x, z), padding=1_-1x0_0 }",
      Mesh::parse("a=3"), {{"x", "a,-"}, {"s", "a,-"}});
  const std::string text = checked(program);
  EXPECT_FALSE(has(text, "select(")) << text;
}

// Every device sums a value computed from iotas: 7,680 operations replace an all-reduce. With many more operations the
// all-reduce is better.
TEST(WorkPerDevice, ValuesComputedFromConstantsAreRematerializedInsteadOfResharded) {
  const auto module = [](int columns) {
    return fmt::format(
        "HloModule m, num_partitions=4\n"
        "add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n"
        "ENTRY e {{ x = f32[64,16] parameter(0), sharding={{devices=[4,1]<=[4]}}\n"
        "i = f32[64,{0}] iota(), iota_dimension=0\nj = f32[64,{0}] iota(), iota_dimension=1\n"
        "d = f32[64,{0}] subtract(i, j)\na = f32[64,{0}] abs(d)\nz = f32[] constant(0)\n"
        "t = f32[{0}] reduce(a, z), dimensions={{0}}, to_apply=add\n"
        "tb = f32[64,{0}] broadcast(t), dimensions={{1}}\nq = f32[64,{0}] divide(a, tb)\n"
        "ROOT r = f32[{0},16] dot(q, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}} }}",
        columns);
  };
  const auto bytes = [&](int columns) {
    const Program program = parse_program(module(columns), op_table());
    checked(program);
    return program_stats(partition(program).program).total_collective_bytes;
  };
  EXPECT_EQ(bytes(24), 24 * 16 * 4 * 3 / 2);
  EXPECT_EQ(bytes(240), (240 * 16 + 240) * 4 * 3 / 2);
}

// One consumer needs rows, the other one columns: the comparison is computed twice, on the elements that each consumer
// needs.
TEST(WorkPerDevice, AMaskIsRematerializedForEachConsumer) {
  const Program program = parse_program(
      "HloModule m, num_partitions=4\nENTRY e { x = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "y = f32[8,8] parameter(1), sharding={devices=[1,4]<=[4]}\n"
      "i = s32[8,8] iota(), iota_dimension=0\nj = s32[8,8] iota(), iota_dimension=1\n"
      "m = pred[8,8] compare(i, j), direction=GE, sharding={devices=[4,1]<=[4]}\nz = f32[] constant(0)\n"
      "zb = f32[8,8] broadcast(z), dimensions={}\na = f32[8,8] select(m, x, zb), sharding={devices=[4,1]<=[4]}\n"
      "b = f32[8,8] select(m, y, zb), sharding={devices=[1,4]<=[4]}\n"
      "ROOT t = (f32[8,8], f32[8,8]) tuple(a, b), sharding={{devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}} }",
      op_table());
  checked(program);
  EXPECT_EQ(program_stats(partition(program).program).total_collective_bytes, 0);
}

// 3 rows on 8 devices: a gather transfers 7 rows, most of them padding; an all-reduce of 3 rows transfers 2 * 7/8 * 3.
TEST(WorkPerDevice, MostlyEmptyTilesAreGatheredByASum) {
  const auto gathered = [](const std::string& type, int rows, const std::string& op) {
    const std::string text = fmt::format(
        "HloModule m\nENTRY main {{ x = {0}[{1},5] parameter(0)\nROOT y = {0}[{1},5] {2}(x) }}", type, rows, op);
    return checked(annotated(text, Mesh::parse("a=8"), {{"x", "a,-"}, {"y", "-,-"}}));
  };
  for (const std::string type : {"f32", "s32", "bf16", "c64", "u8"})
    EXPECT_TRUE(has(gathered(type, 3, "negate"), " all-reduce(")) << type;
  EXPECT_FALSE(has(gathered("pred", 3, "not"), " all-reduce("));
  EXPECT_TRUE(has(gathered("f32", 5, "negate"), " all-gather("));
}

// Results 0..4 read elements before the operand, which permutes leave zero. Only padding of the result reads elements
// after its end.
TEST(WorkPerDevice, ElementsReadOnlyByPaddingAreNotMasked) {
  const std::string text = checked(
      annotated(kFree + "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
                        "ENTRY main { x = f32[5,3] parameter(0) zero = f32[] constant(0)\n"
                        "ROOT c = f32[5,3] reduce-window(x, zero), window={size=5x1 pad=4_0x0_0}, to_apply=add }",
                Mesh::parse("a=7"), {{"x", "a,-"}}));
  EXPECT_TRUE(has(text, "collective-permute")) << text;
  EXPECT_FALSE(has(text, "select(")) << text;
  checked(annotated(kFree + "ENTRY main { x = f32[0,3] parameter(0) one = f32[] constant(1)\n"
                            "ROOT p = f32[4,3] pad(x, one), padding=2_2x0_0 }",
                    Mesh::parse("a=2"), {{"x", "a,-"}, {"p", "a,-"}}));  // an operand without elements
  checked(annotated(kFree + "ENTRY main { x = f32[0,3] parameter(0) zero = f32[] constant(0)\n"
                            "ROOT p = f32[4,3] pad(x, zero), padding=2_2x0_0 }",
                    Mesh::parse("a=2"), {{"x", "a,-"}, {"p", "a,-"}}));
}

// The elements of a tuple are annotated separately: after the call, each has a sharding mark.
TEST(WorkPerDevice, CallsOfTuplesWithShardingsAreInlined) {
  const std::string text = checked(
      annotated(kFree + "both { p = f32[6,4] parameter(0) t = f32[6,4] tanh(p) c = f32[6,4] cosine(p)\n"
                        "ROOT b = (f32[6,4], f32[6,4]) tuple(t, c) }\n"
                        "ENTRY main { x = f32[6,4] parameter(0)\nb = (f32[6,4], f32[6,4]) call(x), to_apply=both, "
                        "sharding={{devices=[2,1]<=[2]}, {devices=[1,2]<=[2]}}\n"
                        "t = f32[6,4] get-tuple-element(b), index=0\nc = f32[6,4] get-tuple-element(b), index=1\n"
                        "ROOT s = f32[6,4] subtract(t, c) }",
                Mesh::parse("a=2"), {}));
  EXPECT_FALSE(has(text, " call(")) << text;
  EXPECT_TRUE(has(text, "dimensions={0}") && has(text, "dimensions={1}"))
      << text;  // gathered from rows and from columns
}

// p is partial over a. Projecting its partial values takes every row; summing first takes only the rows that are
// required. This saves work that costs more than the additional bytes.
TEST(WorkPerDevice, AProductOfPartialValuesIsNotUsedIfItIsMoreWork) {
  const Program program = annotated(
      "HloModule m\nENTRY main { x = f32[64,800] parameter(0) y = f32[800,16] parameter(1) w = f32[16,12] "
      "parameter(2)\n"
      "p = f32[64,16] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "q = f32[64,12] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\nROOT r = f32[64,12] tanh(q) }",
      Mesh::parse("a=4"), {{"x", "-,a"}, {"y", "a,-"}, {"r", "a,-"}});
  checked(program);
  EXPECT_EQ(program_stats(partition(program).program).flops_per_device,
            2 * 64 * 16 * 800 / 4 + 2 * 16 * 16 * 12 + 16 * 12);
}

// The mark leaves d to propagation: d is summed once for both consumers.
TEST(WorkPerDevice, AMarkedValueWithSeveralConsumersIsSummedOnce) {
  const std::string given = "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding";
  const Program program = parse_program(
      "HloModule m, num_partitions=2, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"a\"=2]>}}\n"
      "ENTRY main { x = f32[6,8] parameter(0), " +
          given +
          "<@mesh, [{}, {\\\"a\\\"}]>\"}\n"
          "w = f32[8,6] parameter(1), " +
          given +
          "<@mesh, [{\\\"a\\\"}, {}]>\"}\n"
          "d = f32[6,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
          "m = f32[6,6] custom-call(d), custom_call_target=\"Sharding\", sharding={replicated}, " +
          given +
          "_per_value<[<@mesh, [{?}, {?}]>]>\"}\n"
          "s = f32[6,6] multiply(m, m) t = f32[6,6] add(m, m)\n"
          "u = f32[6,6] dot(t, s), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT v = f32[6,6] add(u, s) }",
      op_table());
  checked(program);
  EXPECT_EQ(program_stats(partition(program).program).total_collective_bytes, 2 * 6 * 6 * 4 / 2);
}

// The consumer reads the cache in its sharding by heads. The cache is resharded only for the result.
TEST(WorkPerDevice, AResultIsReshardedAfterItsOtherConsumers) {
  const Program program = annotated(
      "HloModule m\nENTRY main { cache = f32[8,4,6] parameter(0) k = f32[1,4,6] parameter(1) q = f32[4,6] "
      "parameter(2)\n"
      "o = s32[] constant(0) i = s32[] parameter(3)\nnew = f32[8,4,6] dynamic-update-slice(cache, k, i, o, o)\n"
      "s = f32[4,8] dot(q, new), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={1}, "
      "rhs_contracting_dims={2}\nROOT r = (f32[4,8], f32[8,4,6]) tuple(s, new), "
      "sharding={{devices=[2,1]<=[2]}, {devices=[1,1,2]<=[2]}} }",
      Mesh::parse("a=2"), {{"cache", "-,a,-"}, {"k", "-,a,-"}, {"q", "a,-"}});
  checked(program);
  EXPECT_EQ(program_stats(partition(program).program).total_collective_bytes, 8 * 4 * 6 * 4 / 2 / 2);  // one all-to-all
}

// w is replicated and can be sharded without communication. Summing the results transfers less than twice the bytes of
// gathering x, for a third of the work.
TEST(WorkPerDevice, AReplicatedOperandIsShardedLikeALargeOtherOperand) {
  const auto flops = [](int columns) {
    const Program program =
        annotated(fmt::format("{}ENTRY main {{ x = f32[4,12] parameter(0) w = f32[12,{}] parameter(1)\n"
                              "ROOT y = f32[4,{}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}",
                              kFree, columns, columns),
                  Mesh::parse("a=3"), {{"x", "-,a"}, {"y", "-,-"}});
    checked(program);
    return program_stats(partition(program).program).flops_per_device / (2 * 4 * 12 * columns);
  };
  EXPECT_LT(flops(7), 0.4);
  EXPECT_EQ(flops(30), 1);
}

// The batch is sharded: two sums of a few numbers each replace a gather of all images.
TEST(WorkPerDevice, ABatchNormOverAShardedBatchSumsItsMoments) {
  const std::string text = R"(HloModule m, allow_spmd_sharding_propagation_to_output={true}
ENTRY main { x = f32[9,5,7,4] parameter(0) scale = f32[5] parameter(1) offset = f32[5] parameter(2) dy = f32[9,5,7,4] parameter(3)
n = (f32[9,5,7,4], f32[5], f32[5]) batch-norm-training(x, scale, offset), epsilon=0.01, feature_index=1
y = f32[9,5,7,4] get-tuple-element(n), index=0
mean = f32[5] get-tuple-element(n), index=1
variance = f32[5] get-tuple-element(n), index=2
z = f32[9,5,7,4] tanh(y)
g = (f32[9,5,7,4], f32[5], f32[5]) batch-norm-grad(z, scale, mean, variance, dy), epsilon=0.01, feature_index=1
dx = f32[9,5,7,4] get-tuple-element(g), index=0
ds = f32[5] get-tuple-element(g), index=1
ROOT t = (f32[9,5,7,4], f32[5]) tuple(dx, ds) })";
  const Program program = annotated(text, Mesh::parse("a=2"), {{"x", "a,-,-,-"}, {"dy", "a,-,-,-"}});
  checked(program);
  EXPECT_LE(program_stats(partition(program).program).total_collective_bytes, 4 * 5 * 4);
  const Program by_features = annotated(text, Mesh::parse("a=5"), {{"x", "-,a,-,-"}, {"dy", "-,a,-,-"}});
  checked(by_features);
  EXPECT_EQ(program_stats(partition(by_features).program).total_collective_bytes, 0);
}

// The product requires w with columns sharded over b, and the sum requires them over a. Resharding the sums is less
// expensive than resharding w.
TEST(WorkPerDevice, TheShardingRequiredForTheMostReshardedValueIsTried) {
  const Program program = parse_program(
      "HloModule m, num_partitions=4, allow_spmd_sharding_propagation_to_parameters={true}\n"
      "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
      "ENTRY main { x = f32[16,24] parameter(0) w = f32[24,32] parameter(1) zero = f32[] constant(0)\n"
      "y = f32[16,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "s = f32[32] reduce(w, zero), dimensions={0}, to_apply=add\n"
      "ROOT t = (f32[16,32], f32[32]) tuple(y, s), sharding={{devices=[2,2]<=[4]}, {devices=[2,2]<=[4] "
      "last_tile_dim_replicate}} }",
      op_table());
  checked(program);
  EXPECT_LE(program_stats(partition(program).program).total_collective_bytes, 32 * 4);
}

// The slice reads a replicated operand. If it reads the sharding before that one, each device takes its column.
TEST(WorkPerDevice, ConsumersOfAReshardedValueMayUseItsFormerSharding) {
  const Program program = parse_program(
      "HloModule m, num_partitions=8, allow_spmd_sharding_propagation_to_output={true}\n"
      "ENTRY main { x = f32[32,16] parameter(0), sharding={devices=[1,8]<=[8]}\n"
      "w = f32[32,16] custom-call(x), custom_call_target=\"Sharding\", sharding={replicated}\n"
      "ROOT s = f32[16,8] slice(w), slice={[4:20:1], [0:16:2]} }",
      op_table());
  checked(program);
  EXPECT_EQ(program_stats(partition(program).program).total_collective_bytes, 0);
}

// Queries, keys and values are sharded by time. Softmax and its gradient keep the time of the queries, which is nearest
// to the scores, and keys and values are gathered. Taking the sharding of the gradient's values at the same time would
// reshard the weights between the two time dims.
TEST(WorkPerDevice, ShardingsNearestToTheInputsTakePrecedence) {
  const std::string scores =
      "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}\n";
  const std::string sums =
      "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}\n";
  const Program program = annotated(
      kFree +
          "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
          "ENTRY main { q = f32[8,8,4] parameter(0) k = f32[8,8,4] parameter(1) v = f32[8,8,4] parameter(2)\n"
          "zero = f32[] constant(0) s = f32[8,8,8] dot(q, k), " +
          scores +
          "e = f32[8,8,8] exponential(s) n = f32[8,8] reduce(e, zero), dimensions={2}, to_apply=add\n"
          "m = f32[8,8,8] broadcast(n), dimensions={0,1}\nw = f32[8,8,8] divide(e, m) o = f32[8,8,4] dot(w, v), " +
          sums + "g = f32[8,8,4] tanh(o) dw = f32[8,8,8] dot(g, v), " + scores +
          "p = f32[8,8,8] multiply(dw, w) r = f32[8,8] reduce(p, zero), dimensions={2}, to_apply=add\n"
          "u = f32[8,8,8] broadcast(r), dimensions={0,1}\nd = f32[8,8,8] subtract(dw, u)\n"
          "ds = f32[8,8,8] multiply(d, w) ROOT dq = f32[8,8,4] dot(ds, k), " +
          sums + "}",
      Mesh::parse("a=4"), {{"q", "-,a,-"}, {"k", "-,a,-"}, {"v", "-,a,-"}});
  checked(program);
  EXPECT_EQ(program_stats(partition(program).program).total_collective_bytes, 2 * (8 * 8 * 4 * 4) * 3 / 4);
}

// x is resharded to rows for the product. The other consumers of x use this copy, because the result is required by
// rows.
TEST(WorkPerDevice, AnExistingReshardedCopyIsReused) {
  const Program program = annotated(
      "HloModule m\nENTRY main { x = f32[6,8] parameter(0) w = f32[8,8] parameter(1)\n"
      "u = f32[6,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
      "v = f32[6,8] sine(x) t = f32[6,8] add(u, v) y = f32[6,8] cosine(x) z = f32[6,8] multiply(t, y)\n"
      "ROOT r = f32[6,8] copy(z) }",
      Mesh::parse("a=2"), {{"x", "-,a"}, {"r", "a,-"}});
  checked(program);
  EXPECT_EQ(program_stats(partition(program).program).total_collective_bytes, 6 * 8 * 4 / 2 / 2);  // one all-to-all
}

// The halves of x are exchanged along the dim that is sharded, but the result requires another sharding. If consumers
// take precedence over operands, x is resharded once, and each device exchanges the halves locally.
TEST(WorkPerDevice, ConsumersTakePrecedenceOverOperands) {
  const Program program = annotated(
      "HloModule m\nENTRY main { x = f32[6,4,8] parameter(0)\n"
      "l = f32[6,4,4] slice(x), slice={[0:6], [0:4], [0:4]} h = f32[6,4,4] slice(x), slice={[0:6], [0:4], [4:8]}\n"
      "n = f32[6,4,4] negate(h) c = f32[6,4,8] concatenate(n, l), dimensions={2} ROOT s = f32[6,4,8] sine(c) }",
      Mesh::parse("a=4"), {{"x", "-,-,a"}, {"s", "-,a,-"}});
  checked(program);
  EXPECT_EQ(program_stats(partition(program).program).total_collective_bytes, 6 * 4 * 8 * 4 / 4 * 3 / 4);
}

// Choosing the fewest bytes for each op gives 624 bytes and 1552 operations per device. If ops shard as much work as
// possible, both numbers decrease (576 and 976), but only because later passes merge collectives: before them, the bytes
// are 768. The partitioner trades no bytes for work, so it keeps the former.
TEST(WorkPerDevice, LessWorkForMoreBytesIsNotChosen) {
  const Program program = annotated(
      "HloModule m\nENTRY main { x = f32[8,6] parameter(0) w = f32[6,8] parameter(1) v = f32[8,6] parameter(2)\n"
      "h = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} t = f32[8,8] tanh(h)\n"
      "y = f32[8,6] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "g = f32[8,6] dot(t, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "d = f32[8,8] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
      "q = f32[6,8] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "ROOT o = (f32[8,6], f32[8,6], f32[6,8]) tuple(y, g, q) }",
      Mesh::parse("a=4"), {{"t", "-,-"}, {"x", "a,-"}, {"y", "a,-"}, {"q", "-,-"}});
  checked(program);
  const ProgramStats stats = program_stats(partition(program).program);
  EXPECT_LE(stats.total_collective_bytes, 624);
  EXPECT_LE(stats.flops_per_device, 1552);
}

}  // namespace
}  // namespace tessera

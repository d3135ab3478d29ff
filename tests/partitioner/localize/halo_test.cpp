// SPDX-License-Identifier: Apache-2.0
// Ops that move elements along a sharded dim: neighbours exchange the elements that are needed, and no others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

// x is sharded along dim 0 (images: along their rows) over `devices`, and so is the result.
struct HaloCase {
  std::string body;
  std::string sharding = "{devices=[4,1]<=[4]}";
  int devices = 4;
};

Program program_of(const HaloCase& c) {
  std::string body = c.body;
  for (auto place = body.find('$'); place != std::string::npos; place = body.find('$'))
    body.replace(place, 1, "sharding=" + c.sharding);
  return parse_program(fmt::format("HloModule m, num_partitions={}\n"
                                   "sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}\n"
                                   "ge {{ a = f32[] parameter(0) b = f32[] parameter(1)\n"
                                   "ROOT s = pred[] compare(a, b), direction=GE }}\n"
                                   "ENTRY main {{\n{}}}\n",
                                   c.devices, body),
                       op_table());
}

struct HaloOutcome {
  std::map<std::string, std::int64_t> bytes;  // by opcode
  double flops = 0;
};
HaloOutcome outcome_of(const HaloCase& c) {
  const Program program = program_of(c);
  const CheckReport report = check_partition(program, {});
  const Partitioned parts = partition(program);
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n")) << print_program(parts.program);
  HaloOutcome out;
  const ProgramStats stats = program_stats(parts.program);
  out.flops = stats.flops_per_device;
  std::int64_t explained = 0;
  for (const CollectiveNote& note : parts.notes) {
    explained += note.bytes;
    EXPECT_NE(note.axes, "?");
    EXPECT_NE(note.reason, "is part of the input program");
    EXPECT_NE(note.from, "");
    EXPECT_NE(note.to, "");
    EXPECT_NE(note.remedy.text(), "");
  }
  EXPECT_EQ(explained, stats.total_collective_bytes);
  for (const auto& kind : stats.collectives) out.bytes[kind.opcode] = kind.bytes;
  return out;
}
using Bytes = std::map<std::string, std::int64_t>;

TEST(Halo, AShiftByOneSendsOneRow) {
  EXPECT_EQ(outcome_of({"x = f32[16,8] parameter(0), $\nz = f32[] constant(7)\n"
                        "ROOT y = f32[16,8] pad(x, z), padding=1_-1x0_0, $\n"})
                .bytes,
            Bytes({{"collective-permute", 32}}));
}

HaloCase padded(int size, int low, int high, int devices, int value) {
  return {fmt::format("x = f32[{},8] parameter(0), $\nz = f32[] constant({})\n"
                      "ROOT y = f32[{},8] pad(x, z), padding={}_{}x0_0, $\n",
                      size, value, size + low + high, low, high),
          fmt::format("{{devices=[{0},1]<=[{0}]}}", devices), devices};
}

TEST(Halo, PermutesDeliverTheZerosOfAPad) {
  for (const int devices : {2, 3, 4, 6})
    for (const auto& [low, high] : {std::pair(2, -1), {1, 0}, {0, 1}, {-1, 2}, {3, 3}, {-1, 0}, {5, -5}}) {
      SCOPED_TRACE(fmt::format("{} devices, {}_{}", devices, low, high));
      const double flops = outcome_of(padded(12, low, high, devices, 0)).flops;
      EXPECT_TRUE(flops == 0 || devices > 3) << flops;
      outcome_of(padded(13, low, high, devices, 0));  // the padding of uneven shards is not zero
      outcome_of(padded(7, low, high, devices, 0));
      outcome_of(padded(12, low, high, devices, 7));
    }
  EXPECT_GT(outcome_of(padded(12, 2, -1, 3, 7)).flops, 0);
}

// Rolls x by `count` along dim 0.
HaloCase rolled(int size, int count, int devices = 4) {
  return {fmt::format("x = f32[{0},8] parameter(0), $\na = f32[{1},8] slice(x), slice={{[{2}:{0}], [0:8]}}\n"
                      "b = f32[{2},8] slice(x), slice={{[0:{2}], [0:8]}}\n"
                      "ROOT y = f32[{0},8] concatenate(a, b), dimensions={{0}}, $\n",
                      size, count, size - count),
          fmt::format("{{devices=[{0},1]<=[{0}]}}", devices), devices};
}

TEST(Halo, ARollSendsItsRowsAroundTheEnd) {
  EXPECT_EQ(outcome_of(rolled(16, 1)).bytes, Bytes({{"collective-permute", 32}}));
  EXPECT_EQ(outcome_of(rolled(16, 3)).bytes, Bytes({{"collective-permute", 3 * 32}}));
  EXPECT_EQ(outcome_of(rolled(16, 4)).bytes, Bytes({{"collective-permute", 4 * 32}}));  // complete shards
  EXPECT_EQ(outcome_of(rolled(16, 7)).bytes, Bytes({{"collective-permute", 4 * 32}}));  // from two devices
  EXPECT_EQ(outcome_of(rolled(16, 3)).flops, 0);
}

TEST(Halo, ARollOfUnevenShardsIsRight) {
  for (const int size : {5, 7, 13, 14, 15, 17})
    for (int count = 1; count < size; count += 2) {
      const HaloOutcome roll = outcome_of(rolled(size, count, 3));
      EXPECT_LE(roll.bytes.count("collective-permute") + roll.bytes.count("all-gather"), 1U) << size << " " << count;
    }
}

TEST(Halo, AWrappedPaddingReadsItsBordersFromTheirDevices) {
  const HaloOutcome wrapped =
      outcome_of({"x = f32[16,8] parameter(0), $\na = f32[2,8] slice(x), slice={[14:16], [0:8]}\n"
                  "b = f32[2,8] slice(x), slice={[0:2], [0:8]}\n"
                  "ROOT y = f32[20,8] concatenate(a, x, b), dimensions={0}, $\n"});
  EXPECT_EQ(wrapped.bytes.count("all-gather"), 0U);
  EXPECT_LE(wrapped.bytes.at("collective-permute"), 4 * 32);
  EXPECT_EQ(wrapped.flops, 0);
}

TEST(Halo, ConcatenatesAndSlicesNeedNoMasks) {
  const std::string joined =
      "x = f32[12,8] parameter(0), $\nz = f32[8,8] parameter(1), $\n"
      "ROOT y = f32[20,8] concatenate(x, z), dimensions={0}, $\n";
  EXPECT_EQ(outcome_of({joined}).flops, 0);
  EXPECT_EQ(outcome_of({joined, "{devices=[3,1]<=[3]}", 3}).flops, 0);
  const std::string sliced = "x = f32[13,8] parameter(0), $\nROOT y = f32[7,8] slice(x), slice={[3:10], [0:8]}, $\n";
  EXPECT_EQ(outcome_of({sliced}).flops, 0);
  EXPECT_EQ(outcome_of({sliced, "{devices=[5,1]<=[5]}", 5}).flops, 0);
}

TEST(Halo, SeveralSlicesAreConcatenatedOverTwoAxesOfUnevenShards) {
  for (const std::string sharding : {"{devices=[3,2]<=[6]}", "{devices=[2,3]<=[3,2]T(1,0)}", "{devices=[6,1]<=[6]}",
                                     "{devices=[3,1,2]4,0,5,3,1,2 last_tile_dim_replicate}"}) {
    const HaloOutcome joined =
        outcome_of({"x = f32[11,5] parameter(0), $\nz = f32[4,5] parameter(1), $\n"
                    "a = f32[3,5] slice(x), slice={[8:11], [0:5]}\nb = f32[6,5] slice(x), slice={[1:7], [0:5]}\n"
                    "ROOT y = f32[17,5] concatenate(a, z, b, z), dimensions={0}, $\n",
                    sharding, 6});
    EXPECT_EQ(joined.flops, 0) << sharding;
  }
}

TEST(Halo, ASliceWithOtherConsumersIsComputedAndConcatenated) {
  const HaloOutcome both =
      outcome_of({"x = f32[16,8] parameter(0), $\na = f32[8,8] slice(x), slice={[8:16], [0:8]}, $\n"
                  "b = f32[8,8] slice(x), slice={[0:8], [0:8]}\n"
                  "c = f32[16,8] concatenate(a, b), dimensions={0}, $\n"
                  "ROOT t = (f32[8,8], f32[16,8]) tuple(a, c)\n"});
  EXPECT_EQ(both.bytes.count("all-gather"), 0U);
}

TEST(Halo, AReverseIsOnePermute) {
  EXPECT_EQ(outcome_of({"x = f32[16,8] parameter(0), $\nROOT y = f32[16,8] reverse(x), dimensions={0}, $\n"}).bytes,
            Bytes({{"collective-permute", 128}}));
}

TEST(Halo, TheMiddleOfAnOddNumberOfTilesSendsToItself) {
  const HaloCase c{"x = f32[15,12] parameter(0), $\nROOT y = f32[15,12] reverse(x), dimensions={0}, $\n",
                   "{devices=[5,1]<=[5]}", 5};
  EXPECT_EQ(outcome_of(c).bytes, Bytes({{"collective-permute", 144}}));
  // The shard, the received data, and the reversed data, which reuses the memory of the shard.
  EXPECT_LE(program_stats(partition(program_of(c)).program).peak_bytes_per_device, 480);
}

TEST(Halo, OnlyTheSlicedElementsOfAReverseAreSent) {
  EXPECT_EQ(outcome_of({"x = f32[16,12] parameter(0), $\nr = f32[16,12] reverse(x), dimensions={0}\n"
                        "ROOT y = f32[8,12] slice(r), slice={[1:16:2], [0:12]}, $\n"})
                .bytes,
            Bytes({{"collective-permute", 2 * 48}}));
  EXPECT_EQ(outcome_of({"x = f32[16,12] parameter(0), $\nr = f32[16,12] reverse(x), dimensions={0,1}\n"
                        "ROOT y = f32[16,3] slice(r), slice={[0:16], [1:11:4]}, $\n"})
                .bytes,
            Bytes({{"collective-permute", 4 * 12}}));
  // Another consumer reads the complete reverse, so the slice reads that one.
  EXPECT_EQ(outcome_of({"x = f32[16,12] parameter(0), $\nr = f32[16,12] reverse(x), dimensions={0}\n"
                        "s = f32[16,3] slice(r), slice={[0:16], [1:11:4]}\n"
                        "ROOT t = (f32[16,12], f32[16,3]) tuple(r, s), sharding={{devices=[4,1]<=[4]}, "
                        "{devices=[4,1]<=[4]}}\n"})
                .bytes,
            Bytes({{"collective-permute", 4 * 48}}));
}

TEST(Halo, AGatherAfterABroadcastMovesBeforeIt) {
  const Bytes bytes = outcome_of({"x = f32[9,12] parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0)}\n"
                                  "r = f32[9,12] reverse(x), dimensions={0}\n"
                                  "b = f32[9,2,12] broadcast(r), dimensions={0,2}\n"
                                  "ROOT y = f32[18,12] reshape(b), $\n",
                                  "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"})
                          .bytes;
  EXPECT_EQ(bytes, Bytes({{"all-gather", 120}, {"all-to-all", 216}}));
}

TEST(Halo, AReverseFollowedByAReshardIsOnePermute) {
  EXPECT_EQ(outcome_of({"x = f32[16,8] parameter(0), $\nr = f32[16,8] reverse(x), dimensions={0}, $\n"
                        "c = f32[] constant(3)\nt = f32[16,8] broadcast(c), dimensions={}\n"
                        "m = f32[16,8] multiply(r, t), $\n"
                        "ROOT y = f32[16,8] copy(m), sharding={devices=[4,1]<=[2,2]T(1,0)}\n"})
                .bytes,
            Bytes({{"collective-permute", 128}}));
}

TEST(Halo, InteriorPaddingAndASliceThatRemovesItAreLocal) {
  EXPECT_EQ(outcome_of({"x = f32[16,8] parameter(0), $\nz = f32[] constant(7)\n"
                        "p = f32[32,8] pad(x, z), padding=0_1_1x0_0\n"
                        "ROOT y = f32[16,8] slice(p), slice={[0:32:2], [0:8]}, $\n"})
                .bytes,
            Bytes());
}

TEST(Halo, UnevenShardsSendOnlyRowsBeyondTheirBoundaries) {
  const HaloOutcome odd =
      outcome_of({"x = f32[13,8] parameter(0), $\n"
                  "ROOT y = f32[11,8] slice(x), slice={[2:13], [0:8]}, $\n"});
  EXPECT_EQ(odd.bytes.count("all-gather"), 0U);
  EXPECT_LT(odd.bytes.at("collective-permute"), 9 * 32);  // the bytes of a gather
}

const std::string kConvolution =
    "x = f32[2,16,12,8] parameter(0), $\nw = f32[3,3,8,4] parameter(1), sharding={replicated}\n"
    "ROOT y = f32[2,16,12,4] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, $\n";

TEST(Halo, AConvolutionSendsOneRowEachWayAndShardsItsWork) {
  const HaloOutcome sharded = outcome_of({kConvolution, "{devices=[1,4,1,1]<=[4]}"});
  EXPECT_EQ(sharded.bytes, Bytes({{"collective-permute", 2 * 2 * 12 * 8 * 4}}));
  const HaloOutcome replicated = outcome_of({kConvolution, "{replicated}"});
  EXPECT_LT(sharded.flops, replicated.flops / 4 * 1.1);
}

TEST(Halo, AKernelsGradientSendsRowsAndAllReducesKernels) {
  const HaloOutcome sharded = outcome_of(
      {"x = f32[2,16,12,8] parameter(0), $\nd = f32[2,16,12,4] parameter(1), $\n"
       "ROOT y = f32[3,3,8,4] convolution(x, d), window={size=16x12 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf, "
       "sharding={replicated}\n",
       "{devices=[1,4,1,1]<=[4]}"});
  EXPECT_EQ(sharded.bytes,
            Bytes({{"all-reduce", 2 * 3 * 3 * 8 * 4 * 4 * 3 / 4}, {"collective-permute", 2 * 2 * 12 * 8 * 4}}));
}

// Every device has the complete image, slices its rows with their neighbours, and does its part of the work.
TEST(Halo, WindowsOfAReplicatedOperandAreSlicedLocally) {
  const HaloOutcome convolution = outcome_of(
      {"x = f32[2,9,8,3] parameter(0), sharding={replicated} k = f32[3,3,3,5] parameter(1)\n"
       "ROOT y = f32[2,9,8,5] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, $\n",
       "{devices=[1,4,1,1]<=[4]}"});
  EXPECT_EQ(convolution.bytes, Bytes());
  EXPECT_LE(convolution.flops, 2.0 * 2 * 3 * 8 * 5 * 3 * 9);  // 3 of 9 rows
  const HaloOutcome sums =
      outcome_of({"x = f32[11,6] parameter(0), sharding={replicated} z = f32[] constant(0)\n"
                  "ROOT y = f32[11,6] reduce-window(x, z), window={size=5x1 pad=4_0x0_0}, to_apply=sum, $\n",
                  "{devices=[3,1]<=[3]}", 3});
  EXPECT_EQ(sums.bytes, Bytes());
  EXPECT_LE(sums.flops, 4 * 6 * 5);
  // One dim is unsharded; the halo of the other one comes from neighbours.
  const HaloOutcome corners = outcome_of(
      {"x = f32[7,8] parameter(0), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate} z = f32[] constant(0)\n"
       "ROOT y = f32[7,8] reduce-window(x, z), window={size=3x3 pad=1_1x1_1}, to_apply=sum, $\n",
       "{devices=[2,2]<=[2,2]T(1,0)}"});
  EXPECT_EQ(corners.bytes.count("all-gather"), 0);
  EXPECT_LE(corners.bytes.at("collective-permute"), 2 * 7 * 4);
}

TEST(Halo, AStridedConvolutionsImageGradientNeedsOneRow) {
  // Image rows 2i-1 .. 2i+1 contribute to map row i: the gradient of a tile of 4 image rows needs 2 rows of the map and
  // the next one.
  const HaloOutcome sharded = outcome_of(
      {"d = f32[2,8,6,4] parameter(0), $\nw = f32[3,3,8,4] parameter(1), sharding={replicated}\n"
       "ROOT y = f32[2,16,12,8] convolution(d, w), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, "
       "dim_labels=b01f_01oi->b01f, $\n",
       "{devices=[1,4,1,1]<=[4]}"});
  EXPECT_EQ(sharded.bytes, Bytes({{"collective-permute", 2 * 6 * 4 * 4}}));
}

TEST(Halo, PoolsThatDoNotOverlapNeedNoNeighbours) {
  const std::string pool =
      "x = f32[2,16,12,8] parameter(0), $\nz = f32[] constant(0)\n"
      "ROOT y = f32[2,8,6,8] reduce-window(x, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=sum, $\n";
  EXPECT_EQ(outcome_of({pool, "{devices=[1,4,1,1]<=[4]}"}).bytes, Bytes());
  EXPECT_EQ(outcome_of({pool, "{devices=[1,2,2,1]<=[4]}"}).bytes, Bytes());
}

// Tiles have 9 rows, and windows of 3 start at every second row. The window from 16 to 18 is the first that reaches row
// 18, so rows 16 and 17 come from the previous tile. No window extends beyond the ends, so no padding is needed there.
TEST(Halo, APoolsGradientReadsTheWindowsThatReachItsRows) {
  const HaloOutcome sharded = outcome_of(
      {"x = f32[2,34] parameter(0), $\ny = f32[2,16] parameter(1), $\nz = f32[] constant(0)\n"
       "ROOT g = f32[2,34] select-and-scatter(x, y, z), window={size=1x3 stride=1x2}, select=ge, scatter=sum, $\n",
       "{devices=[1,4]<=[4]}"});
  EXPECT_EQ(sharded.bytes, Bytes({{"collective-permute", 2 * 4 * (2 + 2 + 2)}}));
  EXPECT_EQ(sharded.flops, 2 * 6 * 3);  // six windows; those beyond the image are zeros
}

TEST(Halo, CornersAreSentInTheSecondExchange) {
  const HaloOutcome sharded = outcome_of({kConvolution, "{devices=[1,2,2,1]<=[4]}"});
  // A row of 6 in each direction, then columns of 8 + 2 rows in each direction: 2 images, 8 features, 4 bytes.
  EXPECT_EQ(sharded.bytes, Bytes({{"collective-permute", 2 * 8 * 4 * (2 * 6 + 2 * 10)}}));
}

TEST(Halo, AWindowAsWideAsTheImageIsGatheredIfThatIsLess) {
  // 7 rows in each direction, or all 8 rows of the other device.
  const HaloOutcome wide =
      outcome_of({"x = f32[16,8] parameter(0), $\nz = f32[] constant(0)\n"
                  "ROOT y = f32[16,8] reduce-window(x, z), window={size=15x1 pad=7_7x0_0}, to_apply=sum, $\n",
                  "{devices=[2,1]<=[2]}", 2});
  EXPECT_EQ(wide.bytes, Bytes({{"all-gather", 8 * 32}}));
}

// 13 rows on 4 devices: the last device has one row, and the initial value in place of the others.
TEST(Halo, ARunningSumOfUnevenShardsGathersTileSums) {
  const std::string sums =
      "x = f32[13,8] parameter(0), $\nz = f32[] constant(0)\n"
      "ROOT y = f32[13,8] reduce-window(x, z), window={size=13x1 pad=12_0x0_0}, to_apply=sum, $\n";
  const HaloOutcome sharded = outcome_of({sums});
  EXPECT_EQ(sharded.bytes, Bytes({{"all-gather", 3 * 32}}));
  EXPECT_LT(sharded.flops, outcome_of({sums, "{replicated}"}).flops / 4);
}

// Receives one row from each other device. The windows cover 4 rows instead of 16, and the sums of the previous tiles
// are added.
TEST(Halo, ARunningSumGathersTileSums) {
  const std::string sums =
      "x = f32[16,8] parameter(0), $\nz = f32[] constant(0)\n"
      "ROOT y = f32[16,8] reduce-window(x, z), window={size=16x1 pad=15_0x0_0}, to_apply=sum, $\n";
  const HaloOutcome sharded = outcome_of({sums});
  EXPECT_EQ(sharded.bytes, Bytes({{"all-gather", 3 * 32}}));
  EXPECT_LT(sharded.flops, outcome_of({sums, "{replicated}"}).flops / 4);
}

}  // namespace
}  // namespace tessera

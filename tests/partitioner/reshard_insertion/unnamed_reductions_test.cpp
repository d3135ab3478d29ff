// SPDX-License-Identifier: Apache-2.0
// Reductions over sharded dims by computations that are not known reductions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

constexpr const char* kComputations = R"(%xor { a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] xor(a, b) }
%lse {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] maximum(a, b)
  n = f32[] minimum(a, b)
  d = f32[] subtract(n, m)
  e = f32[] exponential(d)
  l = f32[] log-plus-one(e)
  ROOT c = f32[] add(m, l)
}
%last { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] copy(b) }
%subtract { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] subtract(a, b) }
%argmax {
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(v, w), direction=GT
  e = pred[] compare(v, w), direction=EQ
  l = pred[] compare(i, j), direction=LT
  t = pred[] and(e, l)
  p = pred[] or(g, t)
  a = f32[] select(p, v, w)
  b = s32[] select(p, i, j)
  ROOT c = (f32[], s32[]) tuple(a, b)
}
)";

// As JAX writes it: NaN first, and the lower index for equal values.
constexpr const char* kJaxArgmax = R"(%jax_argmax {
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(v, w), direction=GT
  n = pred[] compare(v, v), direction=NE
  p = pred[] or(g, n)
  e = pred[] compare(v, w), direction=EQ
  l = pred[] compare(i, j), direction=LT
  t = pred[] and(e, l)
  q = pred[] or(p, t)
  a = f32[] select(p, v, w)
  b = s32[] select(q, i, j)
  ROOT c = (f32[], s32[]) tuple(a, b)
}
%maximum_but_7 {
  a = u32[] parameter(0)
  b = u32[] parameter(1)
  seven = u32[] constant(7)
  is_seven = pred[] compare(a, seven), direction=EQ
  m = u32[] maximum(a, b)
  ROOT c = u32[] select(is_seven, b, m)
}
)";

using Bytes = std::map<std::string, std::int64_t>;
struct PartitionOutcome {
  Bytes bytes;  // by opcode
  double flops = 0;
  std::int64_t peak = 0;
};

PartitionOutcome outcome_of(int devices, const std::string& body) {
  const Program program = parse_program(fmt::format("HloModule m, num_partitions={}\n{}{}ENTRY main {{\n{}}}\n",
                                                    devices, kComputations, kJaxArgmax, body),
                                        op_table());
  const CheckReport report = check_partition(program, {});
  const Program local = partition(program).program;
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n")) << print_program(local);
  const ProgramStats stats = program_stats(local);
  PartitionOutcome out{{}, stats.flops_per_device, stats.peak_bytes_per_device};
  for (const auto& kind : stats.collectives) out.bytes[kind.opcode] = kind.bytes;
  return out;
}

// Reduces %x with 64 rows along the dim that is sharded over 4 devices.
PartitionOutcome by(const std::string& computation, const std::string& dtype, int columns, const std::string& init) {
  return outcome_of(4, fmt::format("x = {0}[64,{1}] parameter(0), sharding={{devices=[1,4]<=[4]}}\n{2}"
                                   "ROOT r = {0}[64] reduce(x, z), dimensions={{1}}, to_apply={3}\n",
                                   dtype, columns, init, computation));
}

TEST(UnnamedReductions, GroupsReduceByXorForAnyInit) {
  const PartitionOutcome even = by("xor", "u32", 16, "z = u32[] constant(0)\n");
  EXPECT_EQ(even.bytes, Bytes({{"all-reduce", 384}}));
  EXPECT_EQ(even.flops, 256);
  EXPECT_LE(even.peak, 1540);
  for (const int columns : {16, 18, 5})  // 5: the last device has no elements
    for (const char* init : {"z = u32[] constant(0)\n", "z = u32[] constant(5)\n", "z = u32[] parameter(1)\n"})
      EXPECT_EQ(by("xor", "u32", columns, init).bytes, Bytes({{"all-reduce", 384}})) << columns << init;
}

TEST(UnnamedReductions, GroupsReduceByComputationsThatMayUseTheInitTwice) {
  const PartitionOutcome even = by("lse", "f32", 16, "z = f32[] constant(-1e30)\n");
  EXPECT_EQ(even.bytes, Bytes({{"all-reduce", 384}}));
  EXPECT_EQ(even.flops, 256);
  EXPECT_EQ(by("lse", "f32", 18, "z = f32[] constant(-1e30)\n").bytes, Bytes({{"all-reduce", 384}}));
  // exp(0) = 1 would be added once per device.
  EXPECT_EQ(by("lse", "f32", 16, "z = f32[] constant(0)\n").bytes.count("all-reduce"), 0U);
  EXPECT_EQ(by("lse", "f32", 16, "z = f32[] parameter(1)\n").bytes.count("all-reduce"), 0U);
}

// HLO requires an associative computation. One device accepts others and computes them in the order of the elements, so
// several devices do the same.
TEST(UnnamedReductions, SubtractionKeepsTheOrderOfTheElements) {
  for (const int columns : {4, 5, 16, 18})  // 4: one element for each device
    for (const char* init : {"z = f32[] constant(0)\n", "z = f32[] parameter(1)\n"}) {
      const Bytes bytes = by("subtract", "f32", columns, init).bytes;
      EXPECT_EQ(bytes.count("all-gather"), 1U) << columns << init;
      EXPECT_EQ(bytes.count("all-reduce"), 0U) << columns << init;
    }
}

TEST(UnnamedReductions, WorkOverTwoDimsAndWithShardedResults) {
  const std::string z = "z = u32[] constant(0)\n";
  EXPECT_EQ(outcome_of(4, "x = u32[64,16] parameter(0), sharding={devices=[2,2]<=[4]}\n" + z +
                              "ROOT r = u32[] reduce(x, z), dimensions={0,1}, to_apply=xor\n")
                .bytes.count("all-gather"),
            0U);
  EXPECT_EQ(outcome_of(4, "x = u32[64,16] parameter(0), sharding={devices=[1,4]<=[4]}\n" + z +
                              "ROOT r = u32[64] reduce(x, z), dimensions={1}, to_apply=xor, "
                              "sharding={devices=[4]<=[4]}\n")
                .bytes,
            Bytes({{"all-to-all", 192}}));
}

TEST(UnnamedReductions, UnevenTilesArePaddedWithTheInitOnlyIfItIsNeutral) {
  EXPECT_EQ(by("last", "f32", 18, "z = f32[] constant(0)\n").bytes, Bytes({{"all-gather", 3840}}));
  const std::string argmax =
      "x = f32[64,18] parameter(0), sharding={devices=[1,4]<=[4]}\ni = s32[64,18] iota(), iota_dimension=1\n"
      "low = f32[] constant(-inf)\nnone = s32[] constant(0)\n"
      "ROOT r = (f32[64], s32[64]) reduce(x, i, low, none), dimensions={1}, to_apply=argmax\n";
  EXPECT_EQ(outcome_of(4, argmax).bytes, Bytes({{"all-gather", 1536}}));
}

// The effect of the initial value after other elements must be proven; testing a few elements is not enough.
TEST(UnnamedReductions, UnevenTilesArePaddedWithTheInitOnlyIfNeutralityIsProven) {
  const std::string jax_argmax =
      "x = f32[64,18] parameter(0), sharding={devices=[1,4]<=[4]}\ni = s32[64,18] iota(), iota_dimension=1\n"
      "low = f32[] constant(-inf)\nnone = s32[] constant(0)\n"
      "ROOT r = (f32[64], s32[64]) reduce(x, i, low, none), dimensions={1}, to_apply=jax_argmax\n";
  EXPECT_EQ(outcome_of(4, jax_argmax).bytes, Bytes({{"all-gather", 1536}}));
  EXPECT_EQ(by("maximum_but_7", "u32", 18, "z = u32[] constant(0)\n").bytes, Bytes({{"all-gather", 3840}}));
}

// A window over several arrays cannot run along a sharded dim. The rows of the arrays are sharded meanwhile.
TEST(UnnamedReductions, VariadicWindowsMoveTheShardingToAnotherDim) {
  const PartitionOutcome out =
      outcome_of(4,
                 "x = f32[64,32] parameter(0), sharding={devices=[1,4]<=[4]}\ni = s32[64,32] iota(), iota_dimension=1\n"
                 "low = f32[] constant(-inf)\nnone = s32[] constant(0)\n"
                 "ROOT r = (f32[64,16], s32[64,16]) reduce-window(x, i, low, none), window={size=1x2 stride=1x2}, "
                 "to_apply=argmax, sharding={{devices=[1,4]<=[4]}, {devices=[1,4]<=[4]}}\n");
  EXPECT_EQ(out.bytes.count("all-gather"), 0U);
  EXPECT_EQ(out.bytes, Bytes({{"all-to-all", 64 * 32 / 4 * 3 + 2 * (64 * 16 / 4 * 3)}}));
}

}  // namespace
}  // namespace tessera

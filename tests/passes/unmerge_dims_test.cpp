// SPDX-License-Identifier: Apache-2.0
// Ops between a reshape that merges dims and one that splits them.
#include "tessera/passes/unmerge_dims.h"

#include <fmt/format.h>

#include "passes/expect_pass.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

using namespace passes_tests;  // NOLINT(google-build-using-namespace)

Program unmerged(const Program& program) { return remove_dead_code(unmerge_dims(program)); }

TEST(UnmergeDims, ComputesADotOnTheUnmergedDims) {
  expect_pass(unmerged, R"(
HloModule m
ENTRY %main (x: f32[2,3,5], w: f32[5,7], b: f32[7]) -> f32[2,3,7] {
  %x = f32[2,3,5] parameter(0)
  %w = f32[5,7] parameter(1)
  %b = f32[7] parameter(2)
  %xr = f32[6,5] reshape(%x)
  %d = f32[6,7] dot(%xr, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %bb = f32[6,7] broadcast(%b), dimensions={1}
  %a = f32[6,7] add(%d, %bb)
  ROOT %y = f32[2,3,7] reshape(%a), sharding={devices=[2,1,1]<=[2]}
})",
              R"(
HloModule m
ENTRY %main (x: f32[2,3,5], w: f32[5,7], b: f32[7]) -> f32[2,3,7] {
  %x = f32[2,3,5] parameter(0)
  %w = f32[5,7] parameter(1)
  %b = f32[7] parameter(2)
  %d = f32[2,3,7] dot(%x, %w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  %bb = f32[2,3,7] broadcast(%b), dimensions={2}
  %a = f32[2,3,7] add(%d, %bb)
  ROOT %y = f32[2,3,7] reshape(%a), sharding={devices=[2,1,1]<=[2]}
})");
}

// The gradients of weights and bias: a transpose, a dot that contracts the merged dim, and a sum over it.
TEST(UnmergeDims, EndsAtContractionsAndReductions) {
  expect_pass(unmerged, R"(
HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (x: f32[2,3,5], dy: f32[2,3,7]) -> (f32[7,5], f32[7]) {
  %x = f32[2,3,5] parameter(0)
  %dy = f32[2,3,7] parameter(1)
  %zero = f32[] constant(0)
  %xr = f32[6,5] reshape(%x)
  %dyr = f32[6,7] reshape(%dy)
  %dyt = f32[7,6] transpose(%dyr), dimensions={1,0}
  %dw = f32[7,5] dot(%dyt, %xr), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %db = f32[7] reduce(%dyr, %zero), dimensions={0}, to_apply=%sum
  ROOT %out = (f32[7,5], f32[7]) tuple(%dw, %db)
})",
              R"(
HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (x: f32[2,3,5], dy: f32[2,3,7]) -> (f32[7,5], f32[7]) {
  %x = f32[2,3,5] parameter(0)
  %dy = f32[2,3,7] parameter(1)
  %zero = f32[] constant(0)
  %dyt = f32[7,2,3] transpose(%dy), dimensions={2,0,1}
  %dw = f32[7,5] dot(%dyt, %x), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}
  %db = f32[7] reduce(%dy, %zero), dimensions={0,1}, to_apply=%sum
  ROOT %out = (f32[7,5], f32[7]) tuple(%dw, %db)
})");
}

// Batch and heads are one batch dim of the dots, and an iota counts along another dim. Only the common borders of the
// reshapes remain: [2,3,4] is merged, and [6,4] is its end.
TEST(UnmergeDims, SplitsBatchDimsAtCommonBorders) {
  expect_pass(unmerged, R"(
HloModule m
ENTRY %main (q: f32[2,3,4,5], k: f32[6,4,5]) -> f32[6,4] {
  %q = f32[2,3,4,5] parameter(0)
  %k = f32[6,4,5] parameter(1)
  %qr = f32[24,5] reshape(%q)
  %kr = f32[24,5] reshape(%k)
  %i = f32[24,5] iota(), iota_dimension=1
  %qi = f32[24,5] multiply(%qr, %i)
  %p = f32[24] dot(%qi, %kr), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1},
    rhs_contracting_dims={1}
  ROOT %y = f32[6,4] reshape(%p)
})",
              R"(
HloModule m
ENTRY %main (q: f32[2,3,4,5], k: f32[6,4,5]) -> f32[6,4] {
  %q = f32[2,3,4,5] parameter(0)
  %k = f32[6,4,5] parameter(1)
  %i = f32[6,4,5] iota(), iota_dimension=2
  %qr.1 = f32[6,4,5] reshape(%q)
  %qi = f32[6,4,5] multiply(%qr.1, %i)
  ROOT %p = f32[6,4] dot(%qi, %k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2},
    rhs_contracting_dims={2}
})");
}

// A dim of which another one is merged, and dims that are split elsewhere, in one value.
TEST(UnmergeDims, KeepsOtherDimsOfTheSameReshapes) {
  expect_pass(unmerged, R"(
HloModule m
ENTRY %main (x: f32[2,3,4,5], y: f32[20]) -> f32[2,3,20] {
  %x = f32[2,3,4,5] parameter(0)
  %y = f32[20] parameter(1)
  %xr = f32[6,20] reshape(%x)
  %yb = f32[6,20] broadcast(%y), dimensions={1}
  %s = f32[6,20] subtract(%xr, %yb)
  ROOT %r = f32[2,3,20] reshape(%s)
})",
              R"(
HloModule m
ENTRY %main (x: f32[2,3,4,5], y: f32[20]) -> f32[2,3,20] {
  %x = f32[2,3,4,5] parameter(0)
  %y = f32[20] parameter(1)
  %yb = f32[2,3,20] broadcast(%y), dimensions={2}
  %xr.1 = f32[2,3,20] reshape(%x)
  ROOT %s = f32[2,3,20] subtract(%xr.1, %yb)
})");
}

// One product is split again, the other is not.
TEST(UnmergeDims, LeavesConsumersThatNeedTheMergedDim) {
  expect_pass(unmerged, R"(
HloModule m
ENTRY %main (x: f32[2,3,5]) -> (f32[2,3,5], f32[6,5]) {
  %x = f32[2,3,5] parameter(0)
  %xr = f32[6,5] reshape(%x)
  %a = f32[6,5] tanh(%xr)
  %b = f32[6,5] negate(%xr)
  %y = f32[2,3,5] reshape(%a)
  ROOT %out = (f32[2,3,5], f32[6,5]) tuple(%y, %b)
})",
              R"(
HloModule m
ENTRY %main (x: f32[2,3,5]) -> (f32[2,3,5], f32[6,5]) {
  %x = f32[2,3,5] parameter(0)
  %xr = f32[6,5] reshape(%x)
  %a = f32[2,3,5] tanh(%x)
  %b = f32[6,5] negate(%xr)
  ROOT %out = (f32[2,3,5], f32[6,5]) tuple(%a, %b)
})");
}

class WithMergedDims : public ::testing::TestWithParam<const char*> {};

TEST_P(WithMergedDims, StaysUnchanged) {
  expect_unchanged(unmerged, fmt::format("HloModule m\nENTRY %main (x: f32[4,6,5], z: f32[24,5]) -> f32[4,6,5] {{\n"
                                         "  %x = f32[4,6,5] parameter(0)\n  %z = f32[24,5] parameter(1)\n{}}}\n",
                                         GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    UnmergeDims, WithMergedDims,
    ::testing::Values(
        // an annotation needs the merged dim
        "  %m = f32[24,5] reshape(%x)\n  %t = f32[24,5] tanh(%m), sharding={devices=[2,1]<=[2]}\n"
        "  ROOT %y = f32[4,6,5] reshape(%t)\n",
        "  %m = f32[24,5] reshape(%x), sharding={devices=[2,1]<=[2]}\n  %t = f32[24,5] tanh(%m)\n"
        "  ROOT %y = f32[4,6,5] reshape(%t)\n",
        // a parameter has it
        "  %m = f32[24,5] reshape(%x)\n  %t = f32[24,5] add(%m, %z)\n  ROOT %y = f32[4,6,5] reshape(%t)\n",
        // elements move along it
        "  %m = f32[24,5] reshape(%x)\n  %t = f32[24,5] reverse(%m), dimensions={0}\n"
        "  ROOT %y = f32[4,6,5] reshape(%t)\n",
        // the iota counts along it
        "  %m = f32[24,5] reshape(%x)\n  %i = f32[24,5] iota(), iota_dimension=0\n  %t = f32[24,5] add(%m, %i)\n"
        "  ROOT %y = f32[4,6,5] reshape(%t)\n",
        // the second reshape has other borders
        "  %m = f32[24,5] reshape(%x)\n  %t = f32[24,5] tanh(%m)\n  %s = f32[6,4,5] reshape(%t)\n"
        "  %b = f32[6,4,5] reverse(%s), dimensions={0}\n  ROOT %y = f32[4,6,5] reshape(%b)\n"));

// Devices need only reduce the gradients of weights and bias; everything else is local.
struct LinearCase {
  std::int64_t batch, sequence, batch_tiles, sequence_tiles;
};
class LinearLayers : public ::testing::TestWithParam<LinearCase> {};

TEST_P(LinearLayers, OnlyReduceTheGradientsOfTheirParameters) {
  const LinearCase c = GetParam();
  constexpr int kIn = 6;
  constexpr int kOut = 8;
  const std::string tiles =
      fmt::format("{{devices=[{},{},1]<=[{}]}}", c.batch_tiles, c.sequence_tiles, c.batch_tiles * c.sequence_tiles);
  const std::string text = fmt::format(
      R"(HloModule m, num_partitions={n}
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[{b},{s},{i}] parameter(0), sharding={t}
  w = f32[{o},{i}] parameter(1), sharding={{replicated}}
  bias = f32[{o}] parameter(2), sharding={{replicated}}
  dy = f32[{b},{s},{o}] parameter(3), sharding={t}
  zero = f32[] constant(0)
  xr = f32[{r},{i}] reshape(x)
  wt = f32[{i},{o}] transpose(w), dimensions={{1,0}}
  d = f32[{r},{o}] dot(xr, wt), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  biases = f32[{r},{o}] broadcast(bias), dimensions={{1}}
  h = f32[{r},{o}] add(d, biases)
  y = f32[{b},{s},{o}] reshape(h)
  dyr = f32[{r},{o}] reshape(dy)
  dyt = f32[{o},{r}] transpose(dyr), dimensions={{1,0}}
  dw = f32[{o},{i}] dot(dyt, xr), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  db = f32[{o}] reduce(dyr, zero), dimensions={{0}}, to_apply=sum
  dxr = f32[{r},{i}] dot(dyr, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  dx = f32[{b},{s},{i}] reshape(dxr)
  ROOT out = (f32[{b},{s},{o}], f32[{b},{s},{i}], f32[{o},{i}], f32[{o}]) tuple(y, dx, dw, db),
    sharding={{{t}, {t}, {{replicated}}, {{replicated}}}}
}}
)",
      fmt::arg("n", c.batch_tiles * c.sequence_tiles), fmt::arg("b", c.batch), fmt::arg("s", c.sequence),
      fmt::arg("r", c.batch * c.sequence), fmt::arg("i", kIn), fmt::arg("o", kOut), fmt::arg("t", tiles));
  const Program program = parsed(text);
  const CheckReport report = check_partition(program);
  EXPECT_TRUE(report.passed) << text;
  // An all-reduce over n devices receives 2(n-1)/n of its bytes; dw and db are all that must be sent.
  const ProgramStats stats = program_stats(partition(program).program);
  const std::int64_t n = c.batch_tiles * c.sequence_tiles;
  EXPECT_EQ(stats.total_collective_bytes, 2 * (n - 1) * (kOut * kIn + kOut) * 4 / n);
}

INSTANTIATE_TEST_SUITE_P(UnmergeDims, LinearLayers,
                         ::testing::Values(LinearCase{8, 16, 2, 2}, LinearCase{7, 10, 2, 2}, LinearCase{5, 9, 2, 4},
                                           LinearCase{3, 16, 1, 4}, LinearCase{8, 9, 2, 1}));

// 5 rows of 12 over 4 devices are tiles of 2 rows, or 24 elements; merged, they are tiles of 15.
TEST(UnmergeDims, IsNotUsedIfTilesOfTheMergedDimAreMoreEven) {
  const Program program = parsed(R"(
HloModule m, num_partitions=4
ENTRY main {
  x = f32[5,12,64] parameter(0), sharding={devices=[4,1,1]<=[4]}
  w = f32[64,64] parameter(1), sharding={replicated}
  m = f32[60,64] reshape(x)
  d = f32[60,64] dot(m, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[5,12,64] reshape(d), sharding={devices=[4,1,1]<=[4]}
}
)");
  EXPECT_TRUE(check_partition(program).passed);
  EXPECT_EQ(execution_stats(partition(program).program).flops_per_device, 2 * 15 * 64 * 64);
}

}  // namespace
}  // namespace tessera

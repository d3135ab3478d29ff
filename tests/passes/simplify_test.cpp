// SPDX-License-Identifier: Apache-2.0
// Programs before and after simplify.
#include <gtest/gtest.h>

#include "passes/expect_pass.h"

namespace tessera {
namespace {

using namespace passes_tests;  // NOLINT(google-build-using-namespace)

TEST(Simplify, TurnsDynamicSlicesAtConstantStartsIntoSlices) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (x: f32[5,3], i: s32[]) -> (f32[2,3], f32[2,2], f32[1,3]) {
  %x = f32[5,3] parameter(0)
  %i = s32[] parameter(1)
  %one = s32[] constant(1)
  %many = s32[] constant(9)
  %less = s32[] constant(-1)
  %a = f32[2,3] dynamic-slice(%x, %one, %one), dynamic_slice_sizes={2,3}
  %b = f32[2,2] dynamic-slice(%x, %many, %less), dynamic_slice_sizes={2,2}
  %c = f32[1,3] dynamic-slice(%x, %i, %one), dynamic_slice_sizes={1,3}
  ROOT %r = (f32[2,3], f32[2,2], f32[1,3]) tuple(%a, %b, %c)
})",
              R"(
HloModule m
ENTRY %main (x: f32[5,3], i: s32[]) -> (f32[2,3], f32[2,2], f32[1,3]) {
  %x = f32[5,3] parameter(0)
  %i = s32[] parameter(1)
  %one = s32[] constant(1)
  %a = f32[2,3] slice(%x), slice={[1:3], [0:3]}
  %b = f32[2,2] slice(%x), slice={[3:5], [0:2]}
  %c = f32[1,3] dynamic-slice(%x, %i, %one), dynamic_slice_sizes={1,3}
  ROOT %r = (f32[2,3], f32[2,2], f32[1,3]) tuple(%a, %b, %c)
})");
}

TEST(Simplify, ReadsComplexConstants) {
  expect_unchanged(simplify, R"(
HloModule m
ENTRY %main (x: c64[]) -> c64[] {
  %x = c64[] parameter(0)
  %i = c64[] constant((0, 1))
  ROOT %r = c64[] multiply(%x, %i)
})");
}

TEST(Simplify, RemovesDataMovementWithoutEffect) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (x: f32[2,3], i: s32[]) -> f32[2,3] {
  %x = f32[2,3] parameter(0)
  %i = s32[] parameter(1)
  %zero = f32[] constant(0)
  %a = f32[2,3] copy(%x)
  %b = f32[2,3] reshape(%a)
  %c = f32[2,3] transpose(%b), dimensions={0,1}
  %d = f32[2,3] convert(%c)
  %e = f32[2,3] slice(%d), slice={[0:2],[0:3]}
  %f = f32[2,3] dynamic-slice(%e, %i, %i), dynamic_slice_sizes={2,3}
  %g = f32[2,3] pad(%f, %zero), padding=0_0x0_0
  %h = f32[2,3] concatenate(%g), dimensions={0}
  %j = f32[2,3] broadcast(%h), dimensions={0,1}
  ROOT %r = f32[2,3] sine(%j)
})",
              R"(
HloModule m
ENTRY %main (x: f32[2,3], i: s32[]) -> f32[2,3] {
  %x = f32[2,3] parameter(0)
  %i = s32[] parameter(1)
  ROOT %r = f32[2,3] sine(%x)
})");
}

TEST(Simplify, MergesChainsOfDataMovement) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (x: f32[2,3,5]) -> (f32[30], f32[3,5,2], f32[2,3,5], f32[7,2,3,5,4]) {
  %x = f32[2,3,5] parameter(0)
  %a = f32[6,5] reshape(%x)
  %b = f32[30] reshape(%a)
  %c = f32[5,2,3] transpose(%x), dimensions={2,0,1}
  %d = f32[3,5,2] transpose(%c), dimensions={2,0,1}
  %e = f32[2,3,5] transpose(%c), dimensions={1,2,0}
  %f = f32[2,3,5,4] broadcast(%x), dimensions={0,1,2}
  %g = f32[7,2,3,5,4] broadcast(%f), dimensions={1,2,3,4}
  ROOT %r = (f32[30], f32[3,5,2], f32[2,3,5], f32[7,2,3,5,4]) tuple(%b, %d, %e, %g)
})",
              R"(
HloModule m
ENTRY %main (x: f32[2,3,5]) -> (f32[30], f32[3,5,2], f32[2,3,5], f32[7,2,3,5,4]) {
  %x = f32[2,3,5] parameter(0)
  %b = f32[30] reshape(%x)
  %d = f32[3,5,2] transpose(%x), dimensions={1,2,0}
  %g = f32[7,2,3,5,4] broadcast(%x), dimensions={1,2,3}
  ROOT %r = (f32[30], f32[3,5,2], f32[2,3,5], f32[7,2,3,5,4]) tuple(%b, %d, %x, %g)
})");
}

// A shift, a padding whose border is sliced off, and every second position of two for each element; then slices that
// are not a pad.
TEST(Simplify, TurnsASliceOfAPadIntoOnePad) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (x: f32[8,3], z: f32[]) -> (f32[8,3], f32[8,2], f32[8,3], f32[4,3], f32[1,3]) {
  %x = f32[8,3] parameter(0)
  %z = f32[] parameter(1)
  %p = f32[9,3] pad(%x, %z), padding=1_0x0_0
  %shift = f32[8,3] slice(%p), slice={[0:8], [0:3]}
  %columns = f32[8,2] slice(%p), slice={[1:9], [1:3]}
  %wide = f32[17,3] pad(%x, %z), padding=2_0_1x0_0
  %even = f32[8,3] slice(%wide), slice={[0:16:2], [0:3]}
  %odd = f32[4,3] slice(%p), slice={[0:8:2], [0:3]}
  %outside = f32[1,3] slice(%p), slice={[0:1], [0:3]}
  ROOT %t = (f32[8,3], f32[8,2], f32[8,3], f32[4,3], f32[1,3]) tuple(%shift, %columns, %even, %odd, %outside)
})",
              R"(
HloModule m
ENTRY %main (x: f32[8,3], z: f32[]) -> (f32[8,3], f32[8,2], f32[8,3], f32[4,3], f32[1,3]) {
  %x = f32[8,3] parameter(0)
  %z = f32[] parameter(1)
  %p = f32[9,3] pad(%x, %z), padding=1_0x0_0
  %shift = f32[8,3] pad(%x, %z), padding=1_-1x0_0
  %columns = f32[8,2] pad(%x, %z), padding=0_0x-1_0
  %even = f32[8,3] pad(%x, %z), padding=1_-1x0_0
  %odd = f32[4,3] slice(%p), slice={[0:8:2], [0:3]}
  %outside = f32[1,3] slice(%p), slice={[0:1], [0:3]}
  ROOT %t = (f32[8,3], f32[8,2], f32[8,3], f32[4,3], f32[1,3]) tuple(%shift, %columns, %even, %odd, %outside)
})");
}

// The last slice takes only a part of the operand.
TEST(Simplify, TurnsASliceOfABroadcastIntoASmallerBroadcast) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (x: f32[3], i: s32[]) -> (f32[1,3], f32[2,3], f32[1,5], f32[7,2]) {
  %x = f32[3] parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %one = f32[] constant(1)
  %rows = f32[7,3] broadcast(%x), dimensions={1}
  %ones = f32[7,5] broadcast(%one), dimensions={}
  %a = f32[1,3] dynamic-slice(%rows, %i, %zero), dynamic_slice_sizes={1,3}
  %b = f32[2,3] slice(%rows), slice={[1:6:3], [0:3]}
  %c = f32[1,5] dynamic-slice(%ones, %i, %zero), dynamic_slice_sizes={1,5}
  %d = f32[7,2] slice(%rows), slice={[0:7], [1:3]}
  ROOT %r = (f32[1,3], f32[2,3], f32[1,5], f32[7,2]) tuple(%a, %b, %c, %d)
})",
              R"(
HloModule m
ENTRY %main (x: f32[3], i: s32[]) -> (f32[1,3], f32[2,3], f32[1,5], f32[7,2]) {
  %x = f32[3] parameter(0)
  %i = s32[] parameter(1)
  %one = f32[] constant(1)
  %rows = f32[7,3] broadcast(%x), dimensions={1}
  %a = f32[1,3] broadcast(%x), dimensions={1}
  %b = f32[2,3] broadcast(%x), dimensions={1}
  %c = f32[1,5] broadcast(%one), dimensions={}
  %d = f32[7,2] slice(%rows), slice={[0:7], [1:3]}
  ROOT %r = (f32[1,3], f32[2,3], f32[1,5], f32[7,2]) tuple(%a, %b, %c, %d)
})");
}

TEST(Simplify, TurnsABroadcastIotaIntoAnIota) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (x: s32[2,3,5]) -> s32[2,3,5] {
  %x = s32[2,3,5] parameter(0)
  %i = s32[3,5] iota(), iota_dimension=1
  %j = s32[2,3,5] broadcast(%i), dimensions={1,2}
  ROOT %r = s32[2,3,5] add(%x, %j)
})",
              R"(
HloModule m
ENTRY %main (x: s32[2,3,5]) -> s32[2,3,5] {
  %x = s32[2,3,5] parameter(0)
  %j = s32[2,3,5] iota(), iota_dimension=2
  ROOT %r = s32[2,3,5] add(%x, %j)
})");
}

TEST(Simplify, RemovesNeutralArithmeticAndFoldsScalars) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3] parameter(0)
  %half = f32[] constant(0.5)
  %two = f32[] constant(2)
  %one = f32[] multiply(%half, %two)
  %ones = f32[3] broadcast(%one), dimensions={}
  %zero = f32[] subtract(%two, %two)
  %zeros = f32[3] broadcast(%zero), dimensions={}
  %a = f32[3] multiply(%ones, %x)
  %b = f32[3] add(%a, %zeros)
  %c = f32[3] subtract(%b, %zeros)
  %d = f32[3] divide(%c, %ones)
  %e = f32[3] negate(%d)
  %f = f32[3] negate(%e)
  %sum = f32[] add(%two, %half)
  %sums = f32[3] broadcast(%sum), dimensions={}
  ROOT %r = f32[3] multiply(%f, %sums)
})",
              R"(
HloModule m
ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3] parameter(0)
  %sum = f32[] constant(2.5)
  %sums = f32[3] broadcast(%sum), dimensions={}
  ROOT %r = f32[3] multiply(%x, %sums)
})");
}

TEST(Simplify, FoldsElementwiseOpsOfSplatConstants) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main () -> (f32[4], pred[4]) {
  %c = f32[] constant(3)
  %three = f32[4] broadcast(%c), dimensions={}
  %d = f32[] constant(4)
  %four = f32[4] broadcast(%d), dimensions={}
  %product = f32[4] multiply(%three, %four)
  %less = pred[4] compare(%three, %four), direction=LT
  ROOT %t = (f32[4], pred[4]) tuple(%product, %less)
})",
              R"(
HloModule m
ENTRY %main () -> (f32[4], pred[4]) {
  %constant = f32[] constant(12)
  %product = f32[4] broadcast(%constant), dimensions={}
  %constant.1 = pred[] constant(true)
  %less = pred[4] broadcast(%constant.1), dimensions={}
  ROOT %t = (f32[4], pred[4]) tuple(%product, %less)
})");
}

TEST(Simplify, KeepsOpsWhoseRemovalWouldChangeNanOrInfinity) {
  expect_unchanged(simplify, R"(
HloModule m
ENTRY %main (x: f32[3]) -> (f32[3], f32[3], f32[3]) {
  %x = f32[3] parameter(0)
  %zero = f32[] constant(0)
  %zeros = f32[3] broadcast(%zero), dimensions={}
  %a = f32[3] multiply(%x, %zeros)
  %b = f32[3] subtract(%x, %x)
  %c = f32[3] divide(%x, %x)
  ROOT %r = (f32[3], f32[3], f32[3]) tuple(%a, %b, %c)
})");
}

TEST(Simplify, ReadsElementsOfTuplesButNotThroughBarriers) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (x: f32[3], y: s32[]) -> f32[3] {
  %x = f32[3] parameter(0)
  %y = s32[] parameter(1)
  %t = (f32[3], s32[]) tuple(%x, %y)
  %e = f32[3] get-tuple-element(%t), index=0
  %tied = (f32[3], s32[]) opt-barrier(%t)
  %f = f32[3] get-tuple-element(%tied), index=0
  %yes = pred[] constant(true)
  %s = f32[3] select(%yes, %e, %f)
  ROOT %r = f32[3] add(%s, %f)
})",
              R"(
HloModule m
ENTRY %main (x: f32[3], y: s32[]) -> f32[3] {
  %x = f32[3] parameter(0)
  %y = s32[] parameter(1)
  %t = (f32[3], s32[]) tuple(%x, %y)
  %tied = (f32[3], s32[]) opt-barrier(%t)
  %f = f32[3] get-tuple-element(%tied), index=0
  ROOT %r = f32[3] add(%x, %f)
})");
}

TEST(Simplify, SelectsOnceByTheSamePredicate) {
  expect_pass(simplify, R"(
HloModule m
ENTRY %main (p: pred[3], q: pred[3], a: f32[3], b: f32[3], c: f32[3]) -> (f32[3], f32[3], f32[3]) {
  %p = pred[3] parameter(0)
  %q = pred[3] parameter(1)
  %a = f32[3] parameter(2)
  %b = f32[3] parameter(3)
  %c = f32[3] parameter(4)
  %ab = f32[3] select(%p, %a, %b)
  %first = f32[3] select(%p, %ab, %c)
  %second = f32[3] select(%p, %c, %ab)
  %other = f32[3] select(%q, %ab, %c)
  ROOT %r = (f32[3], f32[3], f32[3]) tuple(%first, %second, %other)
})",
              R"(
HloModule m
ENTRY %main (p: pred[3], q: pred[3], a: f32[3], b: f32[3], c: f32[3]) -> (f32[3], f32[3], f32[3]) {
  %p = pred[3] parameter(0)
  %q = pred[3] parameter(1)
  %a = f32[3] parameter(2)
  %b = f32[3] parameter(3)
  %c = f32[3] parameter(4)
  %ab = f32[3] select(%p, %a, %b)
  %first = f32[3] select(%p, %a, %c)
  %second = f32[3] select(%p, %c, %b)
  %other = f32[3] select(%q, %ab, %c)
  ROOT %r = (f32[3], f32[3], f32[3]) tuple(%first, %second, %other)
})");
}

TEST(Simplify, KeepsReshardsMarksAndRecomputedValues) {
  expect_unchanged(simplify, R"(
HloModule m, num_partitions=2
ENTRY %main (x: f32[4]) -> (f32[4], f32[4], f32[4]) {
  %x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  %a = f32[4] copy(%x), sharding={replicated}
  %b = f32[4] copy(%x), frontend_attributes={tessera.recompute="true"}
  %c = f32[4] custom-call(%x), custom_call_target="Sharding", sharding={replicated}
  ROOT %r = (f32[4], f32[4], f32[4]) tuple(%a, %b, %c)
})");
}

TEST(Simplify, SimplifiesCalledComputationsAndKeepsParametersInOrder) {
  expect_pass(simplify, R"(
HloModule m
%body (a: f32[], b: f32[]) -> f32[] {
  %b = f32[] parameter(1)
  %copy = f32[] copy(%b)
  %a = f32[] parameter(0)
  ROOT %s = f32[] subtract(%a, %copy)
}
ENTRY %main (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  ROOT %r = f32[] call(%x, %x), to_apply=%body
})",
              R"(
HloModule m
%body (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] subtract(%a, %b)
}
ENTRY %main (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  ROOT %r = f32[] call(%x, %x), to_apply=%body
})");
}

TEST(Simplify, SharesUnchangedComputations) {
  const Program before = parsed(R"(
HloModule m
%body (a: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %s = f32[] sine(%a)
}
ENTRY %main (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  ROOT %r = f32[] call(%x), to_apply=%body
})");
  const Program after = simplify(before);
  EXPECT_EQ(before.computations, after.computations);
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// A loop over the rows of a constant does not build the constant in each iteration.
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/op_table.h"

namespace tessera {
namespace {

TEST(SlicedBroadcast, ABodyBuildsOnlyTheRowThatItNeeds) {
  const Program program = parse_program(R"(
HloModule m
%more (s: (s32[], f32[3], f32[1009,3])) -> pred[] {
  %s = (s32[], f32[3], f32[1009,3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(1009)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}
%body (s: (s32[], f32[3], f32[1009,3])) -> (s32[], f32[3], f32[1009,3]) {
  %s = (s32[], f32[3], f32[1009,3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %h = f32[3] get-tuple-element(%s), index=1
  %xs = f32[1009,3] get-tuple-element(%s), index=2
  %one = s32[] constant(1)
  %zero = s32[] constant(0)
  %next = s32[] add(%i, %one)
  %row = f32[1,3] dynamic-slice(%xs, %i, %zero), dynamic_slice_sizes={1,3}
  %x = f32[3] reshape(%row)
  %sine = f32[3] sine(%h)
  %sum = f32[3] add(%sine, %x)
  ROOT %t = (s32[], f32[3], f32[1009,3]) tuple(%next, %sum, %xs)
}
ENTRY %main (h: f32[3]) -> f32[3] {
  %h = f32[3] parameter(0)
  %zero = s32[] constant(0)
  %two = f32[] constant(2)
  %xs = f32[1009,3] broadcast(%two), dimensions={}
  %init = (s32[], f32[3], f32[1009,3]) tuple(%zero, %h, %xs)
  %loop = (s32[], f32[3], f32[1009,3]) while(%init), condition=%more, body=%body
  ROOT %r = f32[3] get-tuple-element(%loop), index=1
})",
                                        op_table());
  const std::string text = print_program(lower(program, 1, {}));
  EXPECT_EQ(text.find("f32[1009,3]"), std::string::npos) << text;
  EXPECT_NE(text.find("while("), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Loops use values that they pass on, and rows of stacks, in place.
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

// A loop of 5 iterations that reads row i of a stack, and writes row `index` of another one.
Program loop_over_rows(const std::string& index, const std::string& more_in_body = "") {
  return parse_program(R"(HloModule rows
%condition (s: (s32[], f32[64], f32[5,64], f32[5,64])) -> pred[] {
  %s = (s32[], f32[64], f32[5,64], f32[5,64]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(5)
  ROOT %more = pred[] compare(%i, %n), direction=LT
}
%body (s: (s32[], f32[64], f32[5,64], f32[5,64])) -> (s32[], f32[64], f32[5,64], f32[5,64]) {
  %s = (s32[], f32[64], f32[5,64], f32[5,64]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %h = f32[64] get-tuple-element(%s), index=1
  %w = f32[5,64] get-tuple-element(%s), index=2
  %ys = f32[5,64] get-tuple-element(%s), index=3
  %zero = s32[] constant(0)
  %one = s32[] constant(1)
  %four = s32[] constant(4)
  %last = s32[] subtract(%four, %i)
  %row = f32[1,64] dynamic-slice(%w, %i, %zero), dynamic_slice_sizes={1,64}
  %flat = f32[64] reshape(%row)
  %grown = f32[64] exponential(%flat)
  %sum = f32[64] add(%h, %grown)
  %y = f32[1,64] reshape(%grown)
  )" + more_in_body + R"(
  %written = f32[5,64] dynamic-update-slice(%ys, %y, )" +
                           index + R"(, %zero)
  %next = s32[] add(%i, %one)
  ROOT %state = (s32[], f32[64], f32[5,64], f32[5,64]) tuple(%next, %sum, %w, %written)
}
ENTRY %main (h: f32[64], w: f32[5,64]) -> (f32[64], f32[5,64], f32[5,64]) {
  %h = f32[64] parameter(0)
  %w = f32[5,64] parameter(1)
  %zero = s32[] constant(0)
  %nothing = f32[] constant(0)
  %ys = f32[5,64] broadcast(%nothing), dimensions={}
  %init = (s32[], f32[64], f32[5,64], f32[5,64]) tuple(%zero, %h, %w, %ys)
  %end = (s32[], f32[64], f32[5,64], f32[5,64]) while(%init), condition=%condition, body=%body
  %h2 = f32[64] get-tuple-element(%end), index=1
  %w2 = f32[5,64] get-tuple-element(%end), index=2
  %ys2 = f32[5,64] get-tuple-element(%end), index=3
  ROOT %out = (f32[64], f32[5,64], f32[5,64]) tuple(%h2, %w2, %ys2)
}
)",
                       op_table(), {});
}

const Schedule& body_of(const Schedule& entry) {
  for (const auto& nested : entry.nested)
    if (nested.size() == 2) return *nested[1].schedule;
  throw std::runtime_error("no loop");
}

TEST(Rows, AreReadAndWrittenInPlace) {
  for (const char* index : {"%i", "%last"}) {
    const Program program = loop_over_rows(index);
    const auto schedule = make_schedule(program);
    verify_schedule(program, *schedule);
    EXPECT_EQ(body_of(*schedule).rows.size(), 2U) << index;
    EXPECT_EQ(schedule->unwritten.size(), 1U) << index;
  }
}

TEST(Rows, ThatAreNotAllWrittenBeginWithZeros) {
  const Program program = loop_over_rows("%zero");
  const auto schedule = make_schedule(program);
  verify_schedule(program, *schedule);
  EXPECT_EQ(body_of(*schedule).rows.size(), 2U);
  EXPECT_TRUE(schedule->unwritten.empty());
}

TEST(Rows, OfAStackThatTheBodyReadsOtherwiseAreCopied) {
  const std::string before =
      "%before = f32[1,64] dynamic-slice(%ys, %zero, %zero), dynamic_slice_sizes={1,64}\n"
      "  %also = f32[1,64] add(%before, %y)";
  std::string text = before;
  const Program program = loop_over_rows("%i", text + "\n  %kept = f32[64] reshape(%also)");
  const auto schedule = make_schedule(program);
  verify_schedule(program, *schedule);
  // Nothing uses %also, but it reads %ys.
  EXPECT_EQ(body_of(*schedule).rows.size(), 1U);
  EXPECT_TRUE(schedule->unwritten.empty());
}

TEST(Rows, APassedOnStackHasTheBufferOfItsInitialValue) {
  const Program program = loop_over_rows("%i");
  const auto schedule = make_schedule(program);
  const Computation& entry = program.entry_computation();
  for (Id id = 0; id < entry.size(); ++id) {
    if (entry[id].op->role != Role::kWhile) continue;
    EXPECT_EQ(schedule->access[static_cast<std::size_t>(id)][2].buffer, schedule->access[1][0].buffer);
  }
}

}  // namespace
}  // namespace tessera

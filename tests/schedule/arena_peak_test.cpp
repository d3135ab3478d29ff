// SPDX-License-Identifier: Apache-2.0
// The texts of the largest parts of the arena.
#include "tessera/schedule/arena_peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

// The result of the sort, which has this metadata, is in the arena.
bool has_part(const std::string& metadata, const std::string& text) {
  const Program program = parse_program(R"(HloModule m
%less { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %l = pred[] compare(%a, %b), direction=LT }
%add { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %s = f32[] add(%a, %b) }
ENTRY %main {
  %x = f32[6,5] parameter(0)
  %zero = f32[] constant(0)
  %s = f32[6,5] sort(%x), dimensions={1}, to_apply=%less)" +
                                            metadata +
                                            R"(
  ROOT %y = f32[] reduce(%s, %zero), dimensions={0,1}, to_apply=%add
})",
                                        op_table());
  const ArenaPeak peak = arena_peak(program, *make_schedule(program));
  return std::any_of(peak.largest.begin(), peak.largest.end(),
                     [&](const ArenaPeak::Part& part) { return part.what == text; });
}

TEST(ArenaPeak, NamesTheModuleAndTheSourceLineOfAValue) {
  EXPECT_TRUE(has_part("", "f32[6,5] %s (sort)"));
  EXPECT_TRUE(has_part(R"(, metadata={op_name="transformer.h.0.mlp"})", "f32[6,5] %s (sort, transformer.h.0.mlp)"));
  EXPECT_TRUE(has_part(R"(, metadata={op_name="transformer.h.0.mlp" source_file="gpt2.cpp" source_line=40})",
                       "f32[6,5] %s (sort, transformer.h.0.mlp, gpt2.cpp:40)"));
}

ArenaPeak peak_of(const std::string& text) {
  const Program program = parse_program(text, op_table());
  return arena_peak(program, *make_schedule(program));
}

// The blocks of the devices are not contiguous in the result.
TEST(ArenaPeak, CountsTheMessagesOfACollective) {
  const ArenaPeak peak = peak_of(R"(HloModule m, num_partitions=2
ENTRY %main {
  %x = f32[3,4] parameter(0)
  ROOT %y = f32[3,8] all-gather(%x), channel_id=1, replica_groups={{0,1}}, dimensions={1}, use_global_device_ids=true
})");
  EXPECT_GE(peak.messages, 3 * 8 * 4);
  EXPECT_EQ(peak.scratch, 0);
}

// %d is reduced to the gradient %g, of which the optimizer reads a multiple. %a is an activation.
TEST(ArenaPeak, CountsGradientsAlsoBeforeTheirReduction) {
  const ArenaPeak peak = peak_of(R"(HloModule m, num_partitions=2
%add { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %s = f32[] add(%a, %b) }
ENTRY %main {
  %x = f32[5,3] parameter(0)
  %y = f32[5,7] parameter(1)
  %w = f32[3,7] parameter(2)
  %a = f32[5,7] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %d = f32[3,7] dot(%x, %y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %g = f32[3,7] all-reduce(%d), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add
  %c = f32[3,7] multiply(%g, %g), metadata={op_name="clip_grad_norm"}
  %u = f32[3,7] subtract(%w, %c), metadata={op_name="optimizer"}
  %z = f32[3,5] dot(%u, %a), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT %r = (f32[3,5], f32[3,7]) tuple(%z, %u)
})");
  EXPECT_GE(peak.gradients, 3 * 7 * 4);
  EXPECT_GE(peak.values, 5 * 7 * 4);
}

TEST(ArenaPeak, CountsTheArenaOfALoopAsScratchMemory) {
  const ArenaPeak peak = peak_of(R"(HloModule m
%body {
  %t = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %x = f32[4] get-tuple-element(%t), index=1
  %one = s32[] constant(1)
  %n = s32[] add(%i, %one)
  %y = f32[4] negate(%x)
  ROOT %r = (s32[], f32[4]) tuple(%n, %y)
}
%cond {
  %t = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %k = s32[] constant(3)
  ROOT %l = pred[] compare(%i, %k), direction=LT
}
ENTRY %main {
  %p = f32[4] parameter(0)
  %zero = s32[] constant(0)
  %t = (s32[], f32[4]) tuple(%zero, %p)
  %w = (s32[], f32[4]) while(%t), condition=%cond, body=%body
  ROOT %x = f32[4] get-tuple-element(%w), index=1
})");
  EXPECT_GT(peak.scratch, 0);
  EXPECT_EQ(peak.messages, 0);
}

TEST(ArenaPeak, ShowsTheEndOfALongPath) {
  const std::string end = "layers_7/mlp/dot_general[dimension_numbers=(1,0)]";
  ASSERT_EQ(end.size(), 49U);
  EXPECT_TRUE(has_part(R"(, metadata={op_name="jit(step)/jit(main)/)" + end + R"("})",
                       "f32[6,5] %s (sort, .." + end.substr(1) + ")"));
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The decisions of the scheduler: order, groups, views, donation, the arena.
#include "tessera/schedule/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"

namespace tessera {
namespace {

const std::string kAdd = R"(%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
)";

Program read(const std::string& text) { return parse_program(text, op_table()); }

std::vector<std::string> step_names(const Program& program, const Schedule& plan) {
  std::vector<std::string> out;
  for (const Step& step : plan.steps) {
    std::vector<std::string> names;
    for (const Id id : step.instructions) names.push_back(program.entry_computation()[id].name);
    out.push_back(fmt::format("{}", fmt::join(names, "+")));
  }
  return out;
}

// Its five lists have the element type of the rows, but are not sent.
TEST(Schedule, ARaggedExchangePacksNoneOfItsOperands) {
  const Program program = read(R"(HloModule m, num_partitions=2
ENTRY %main {
  %rows = s32[6,5] parameter(0)
  %room = s32[9,5] parameter(1)
  %first = s32[2] parameter(2)
  %count = s32[2] parameter(3)
  %place = s32[2] parameter(4)
  %received = s32[2] parameter(5)
  ROOT %out = s32[9,5] ragged-all-to-all(%rows, %room, %first, %count, %place, %received), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true
})");
  EXPECT_EQ(make_schedule(program)->arena_bytes, 0);
  const Computation& main = program.entry_computation();
  EXPECT_TRUE(packed_operands(view_of(program, main, main[main.root])).empty());
}

TEST(Schedule, ValuesWhoseBytesOverflow64BitsAreAnError) {
  std::string text = "HloModule m\nENTRY %main {\n  %v0 = s8[1152921504606846976] parameter(0)\n";
  for (int i = 1; i < 20; ++i)
    text += fmt::format("  %v{} = s8[1152921504606846976] sort(%v{}), dimensions={{0}}, to_apply=%less\n", i, i - 1);
  for (int i = 1; i < 19; ++i) text += fmt::format("  %u{0} = s8[1] slice(%v{0}), slice={{[0:1]}}\n", i);
  text.insert(
      text.find("ENTRY"),
      "%less { %a = s8[] parameter(0) %b = s8[] parameter(1) ROOT %l = pred[] compare(%a, %b), direction=LT }\n");
  text += "  %first = s8[18] concatenate(%u1";
  for (int i = 2; i < 19; ++i) text += fmt::format(", %u{}", i);
  text += "), dimensions={0}\n  ROOT %t = (s8[18], s8[1152921504606846976]) tuple(%first, %v19)\n}";
  try {
    make_schedule(read(text));
    FAIL() << "made a plan";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("values of the program together need more bytes than 64 bits can count"),
              std::string::npos)
        << error.what();
  }
}

TEST(Schedule, ElementwiseChainsAreOneStepAndBroadcastsAreNone) {
  const Program program = read(R"(HloModule gelu
ENTRY %main (x: f32[8,16], b: f32[16]) -> f32[8,16] {
  %x = f32[8,16] parameter(0)
  %b = f32[16] parameter(1)
  %bias = f32[8,16] broadcast(%b), dimensions={1}
  %h = f32[8,16] add(%x, %bias)
  %t = f32[8,16] tanh(%h)
  ROOT %y = f32[8,16] multiply(%h, %t)
})");
  const auto plan = make_schedule(program);
  EXPECT_EQ(step_names(program, *plan), std::vector<std::string>{"h+t+y"});
  EXPECT_EQ(plan->arena_bytes, 0);
  EXPECT_EQ(plan->peak_bytes(), 8 * 16 * 4 + 16 * 4 + 8 * 16 * 4);
  verify_schedule(program, *plan);
}

TEST(Schedule, ReductionsOfRowsAreFusedWithProducersAndConsumers) {
  const Program program = read("HloModule softmax\n" + kAdd + R"(ENTRY %main (x: f32[8,16]) -> f32[8,16] {
  %x = f32[8,16] parameter(0)
  %zero = f32[] constant(0)
  %e = f32[8,16] exponential(%x)
  %sum = f32[8] reduce(%e, %zero), dimensions={1}, to_apply=%add
  %root = f32[8] sqrt(%sum)
  %wide = f32[8,16] broadcast(%root), dimensions={0}
  ROOT %p = f32[8,16] divide(%e, %wide)
})");
  const auto plan = make_schedule(program);
  EXPECT_EQ(step_names(program, *plan), std::vector<std::string>{"e+sum+root+p"});
  EXPECT_EQ(plan->arena_bytes, 0);
  EXPECT_NE(
      describe(program, *plan).find("516         512   fused exponential, reduce, sqrt, divide -> f32[8,16] (%p)"),
      std::string::npos)
      << describe(program, *plan);
  verify_schedule(program, *plan);
}

TEST(Schedule, AValueOnlyReadByATransposeIsWrittenInItsLayout) {
  const Program program = read(R"(HloModule gradient
ENTRY %main (d: f32[8,6], x: f32[8,4]) -> f32[4,6] {
  %d = f32[8,6] parameter(0)
  %x = f32[8,4] parameter(1)
  %w = f32[6,4] dot(%d, %x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %turned = f32[4,6] transpose(%w), dimensions={1,0}
  ROOT %twice = f32[4,6] add(%turned, %turned)
})");
  const auto plan = make_schedule(program);
  EXPECT_EQ(step_names(program, *plan), (std::vector<std::string>{"w", "twice"}));
  verify_schedule(program, *plan);
}

TEST(Schedule, AValueReadByAnOpInBetweenEndsTheGroup) {
  const Program program = read("HloModule columns\n" + kAdd + R"(ENTRY %main (x: f32[8,16]) -> f32[8,16] {
  %x = f32[8,16] parameter(0)
  %zero = f32[] constant(0)
  %e = f32[8,16] exponential(%x)
  %sum = f32[16] reduce(%e, %zero), dimensions={0}, to_apply=%add
  %wide = f32[8,16] broadcast(%sum), dimensions={1}
  ROOT %p = f32[8,16] divide(%e, %wide)
})");
  const auto plan = make_schedule(program);
  EXPECT_EQ(step_names(program, *plan), (std::vector<std::string>{"e", "sum", "p"}));
  verify_schedule(program, *plan);
}

TEST(Schedule, TheOperandOfAnInPlaceUpdateIsComputedInTheBufferOfTheResult) {
  const Program program = read(R"(HloModule updates
ENTRY %main (x: f32[4,16], i: s32[]) -> (f32[16,16], f32[16]) {
  %x = f32[4,16] parameter(0)
  %i = s32[] parameter(1)
  %zero = f32[] constant(0)
  %none = s32[] constant(0)
  %start = f32[16,16] broadcast(%zero), dimensions={}
  %one = f32[16,16] dynamic-update-slice(%start, %x, %i, %none)
  %row = f32[1,16] dynamic-slice(%one, %none, %none), dynamic_slice_sizes={1,16}
  %two = f32[16,16] dynamic-update-slice(%one, %x, %none, %none)
  %flat = f32[16] reshape(%row)
  ROOT %both = (f32[16,16], f32[16]) tuple(%two, %flat)
})");
  const auto plan = make_schedule(program);
  EXPECT_LT(plan->arena_bytes, 16 * 16 * 4);
  verify_schedule(program, *plan);
}

TEST(Schedule, ADonatedParameterReceivesItsResult) {
  const std::string body = R"(
ENTRY %main (w: f32[100], g: f32[100]) -> (f32[100], f32[]) {
  %w = f32[100] parameter(0)
  %g = f32[100] parameter(1)
  %loss = f32[] constant(1)
  %w2 = f32[100] subtract(%w, %g)
  ROOT %out = (f32[100], f32[]) tuple(%w2, %loss)
})";
  const auto donated = make_schedule(read("HloModule sgd, input_output_alias={ {0}: (0, {}, may-alias) }" + body));
  EXPECT_EQ(donated->results[0].delivery, Delivery::kInPlace);
  EXPECT_EQ(donated->result_bytes, 4);
  const auto plain = make_schedule(read("HloModule sgd" + body));
  EXPECT_EQ(plain->results[0].delivery, Delivery::kDirect);
  EXPECT_EQ(plain->result_bytes, 404);
  EXPECT_EQ(plain->results[1].delivery, Delivery::kCopy);  // a constant
}

TEST(Schedule, ADonatedParameterThatIsReadLaterKeepsItsValue) {
  const Program program = read(R"(HloModule late, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY %main (w: f32[4,4], g: f32[4,4]) -> (f32[4,4], f32[4,4]) {
  %w = f32[4,4] parameter(0)
  %g = f32[4,4] parameter(1)
  %w2 = f32[4,4] dot(%w, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %use = f32[4,4] dot(%w2, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %out = (f32[4,4], f32[4,4]) tuple(%w2, %use)
})");
  const auto plan = make_schedule(program);
  EXPECT_EQ(plan->results[0].delivery, Delivery::kDirect);
  verify_schedule(program, *plan);
}

// Three units, each of which gathers its weights. The text gathers all of them first.
std::string fsdp_text(int units) {
  std::string text = "HloModule fsdp, num_partitions=4\nENTRY %main {\n  %x0 = f32[2,64] parameter(0)\n";
  for (int u = 0; u < units; ++u) text += fmt::format("  %w{0} = f32[16,64] parameter({1})\n", u, u + 1);
  for (int u = 0; u < units; ++u)
    text += fmt::format(
        "  %full{0} = f32[64,64] all-gather(%w{0}), channel_id={1}, replica_groups=[1,4]<=[4], "
        "use_global_device_ids=true, dimensions={{0}}\n",
        u, u + 1);
  for (int u = 0; u < units; ++u)
    text += fmt::format(
        "  {2}%x{1} = f32[2,64] dot(%x{0}, %full{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n", u,
        u + 1, u + 1 == units ? "ROOT " : "");
  return text + "}\n";
}

TEST(Schedule, GathersRunJustBeforeTheirFirstReader) {
  const Program program = read(fsdp_text(4));
  const auto plan = make_schedule(program);
  EXPECT_EQ(step_names(program, *plan),
            (std::vector<std::string>{"full0", "x1", "full1", "x2", "full2", "x3", "full3", "x4"}));
  // One gathered weight at a time, and two activations.
  EXPECT_LE(plan->arena_bytes, 64 * 64 * 4 + 2 * 2 * 64 * 4);
  const auto as_written = make_schedule(program, {false, true, true});
  EXPECT_GE(as_written->arena_bytes, 4 * 64 * 64 * 4);
}

// A scan slices its stacked parameters; the front end emits all slices at the start.
TEST(Schedule, SlicesOfParametersRunJustBeforeTheirFirstReader) {
  const Program program = read(R"(HloModule scan
ENTRY %main (ws: f32[4,32,32], i: s32[], x: f32[32,32]) -> f32[32,32] {
  %ws = f32[4,32,32] parameter(0)
  %i = s32[] parameter(1)
  %x = f32[32,32] parameter(2)
  %zero = s32[] constant(0)
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %w0 = f32[1,32,32] dynamic-slice(%ws, %i, %zero, %zero), dynamic_slice_sizes={1,32,32}
  %w1 = f32[1,32,32] dynamic-slice(%ws, %j, %zero, %zero), dynamic_slice_sizes={1,32,32}
  %v0 = f32[32,32] reshape(%w0)
  %v1 = f32[32,32] reshape(%w1)
  %a = f32[32,32] dot(%x, %v0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %b = f32[32,32] dot(%a, %v1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %r = f32[32,32] dot(%b, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  const Computation& main = program.entry_computation();
  std::vector<std::string> order;
  for (const Id id : order_instructions(program, main))
    if (main[id].op->name == "dynamic-slice" || main[id].op->name == "dot") order.push_back(main[id].name);
  EXPECT_EQ(order, (std::vector<std::string>{"w0", "a", "w1", "b", "r"}));
}

TEST(Schedule, ReduceScattersRunAsSoonAsTheyCan) {
  std::string text = R"(HloModule grads, num_partitions=4
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main {
  %x = f32[8,64] parameter(0)
  %y = f32[8,64] parameter(1)
)";
  for (int i = 0; i < 3; ++i)
    text +=
        fmt::format("  %g{0} = f32[64,64] dot(%x, %y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n", i);
  for (int i = 0; i < 3; ++i)
    text += fmt::format(
        "  %s{0} = f32[16,64] reduce-scatter(%g{0}), channel_id={1}, replica_groups=[1,4]<=[4], "
        "use_global_device_ids=true, dimensions={{0}}, to_apply=%add\n",
        i, i + 1);
  text += "  ROOT %out = (f32[16,64], f32[16,64], f32[16,64]) tuple(%s0, %s1, %s2)\n}\n";
  const Program program = read(text);
  const auto plan = make_schedule(program);
  EXPECT_EQ(step_names(program, *plan), (std::vector<std::string>{"g0", "s0", "g1", "s1", "g2", "s2"}));
  EXPECT_EQ(plan->arena_bytes, 64 * 64 * 4);
}

TEST(Schedule, NothingAfterABarrierRunsBeforeItsOperands) {
  const Program program = read("HloModule barrier\n" + kAdd + R"(ENTRY %main {
  %h = f32[64,64] parameter(0)
  %zero = f32[] constant(0)
  %x = f32[64,64] dot(%h, %h), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %slow = f32[64,64] dot(%h, %h), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %both = (f32[64,64], f32[64,64]) tuple(%x, %slow)
  %barrier = (f32[64,64], f32[64,64]) opt-barrier(%both)
  %y = f32[64,64] get-tuple-element(%barrier), index=0
  %sum = f32[64] reduce(%y, %zero), dimensions={1}, to_apply=%add
  ROOT %r = (f32[64], f32[64,64]) tuple(%sum, %slow)
})");
  EXPECT_EQ(step_names(program, *make_schedule(program)), (std::vector<std::string>{"x", "slow", "sum"}));
}

TEST(Schedule, TransposesAndSlicesThatADotReadsAreNotComputed) {
  const Program program = read(R"(HloModule attention
ENTRY %main (q: f32[2,8,3,16], k: f32[2,8,3,16]) -> f32[2,3,8,8] {
  %q = f32[2,8,3,16] parameter(0)
  %k = f32[2,8,3,16] parameter(1)
  %qt = f32[2,3,8,16] transpose(%q), dimensions={0,2,1,3}
  %kt = f32[2,3,16,8] transpose(%k), dimensions={0,2,3,1}
  ROOT %s = f32[2,3,8,8] dot(%qt, %kt), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
})");
  EXPECT_EQ(step_names(program, *make_schedule(program)), std::vector<std::string>{"s"});
}

TEST(Schedule, AReshapeOfATransposeOfAValueInMemoryIsPlanned) {
  // %t is in memory because %flat reshapes it. %back then reads %t, not %m.
  const Program program = read(R"(HloModule views
ENTRY %main (x: s32[4,6]) -> (s32[24], s32[24]) {
  %x = s32[4,6] parameter(0)
  %m = s32[4,6] multiply(%x, %x)
  %t = s32[6,4] transpose(%m), dimensions={1,0}
  %flat = s32[24] reshape(%t)
  %back = s32[4,6] transpose(%t), dimensions={1,0}
  %rows = s32[24] reshape(%back)
  %n = s32[24] negate(%rows)
  ROOT %out = (s32[24], s32[24]) tuple(%flat, %n)
})");
  const auto plan = make_schedule(program);
  verify_schedule(program, *plan);
}

TEST(Schedule, ScratchOfNestedComputationsIsPartOfTheArena) {
  const Program program = read(R"(HloModule nested
%inner (a: f32[1000]) -> f32[1000] {
  %a = f32[1000] parameter(0)
  %d = f32[1000,1] reshape(%a)
  %m = f32[1000,1000] dot(%d, %d), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT %r = f32[1000] dot(%m, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY %main (x: f32[1000]) -> f32[1000] {
  %x = f32[1000] parameter(0)
  ROOT %y = f32[1000] call(%x), to_apply=%inner
})");
  EXPECT_GE(peak_bytes(program), 4'000'000 + 8000);
  EXPECT_LT(peak_bytes(program), 4'000'000 + 9000);
}

TEST(Schedule, OrderIsAPermutationThatKeepsOperandsFirst) {
  const Program program = read(fsdp_text(5));
  const Computation& main = program.entry_computation();
  const auto order = order_instructions(program, main);
  std::vector<int> place(main.instructions.size(), -1);
  for (int i = 0; i < isize(order); ++i) at(place, at(order, i)) = i;
  ASSERT_EQ(order.size(), main.instructions.size());
  for (Id id = 0; id < main.size(); ++id) {
    ASSERT_GE(at(place, id), 0);
    for (const Id operand : main[id].operands) EXPECT_LT(at(place, operand), at(place, id));
  }
}

// The scheduler moves steps to an earlier position if this frees memory, but keeps the order of side effects.
TEST(Schedule, InstructionsWithSideEffectsKeepTheirOrder) {
  const Program program = read(R"(HloModule m
%less (a: f32[], b: f32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}
%told (a: f32[8]) -> f32[8] {
  %a = f32[8] parameter(0)
  ROOT %t = f32[8] custom-call(%a), custom_call_target="tell", custom_call_has_side_effect=true
}
ENTRY %main (x: f32[8,8]) -> (f32[8,8], f32[8,8]) {
  %x = f32[8,8] parameter(0)
  %large = f32[8,8] sort(%x), dimensions={1}, is_stable=true, to_apply=%less
  %other = f32[8,8] sort(%x), dimensions={0}, is_stable=true, to_apply=%less
  %first = () custom-call(%other), custom_call_target="tell", custom_call_has_side_effect=true
  %row = f32[1,8] slice(%large), slice={[0:1], [0:8]}
  %flat = f32[8] reshape(%row)
  %inner = f32[8] call(%flat), to_apply=%told
  %last = () custom-call(), custom_call_target="tell", custom_call_has_side_effect=true
  ROOT %r = (f32[8,8], f32[8,8]) tuple(%x, %x)
})");
  const auto plan = make_schedule(program);
  std::vector<std::string> effects;
  for (const std::string& name : step_names(program, *plan))
    if (name == "first" || name == "inner" || name == "last") effects.push_back(name);
  EXPECT_EQ(effects, (std::vector<std::string>{"first", "inner", "last"}));
  verify_schedule(program, *plan);
}

}  // namespace
}  // namespace tessera

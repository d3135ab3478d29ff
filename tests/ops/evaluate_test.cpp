// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/evaluate.h"
#include "support/error_of.h"

#include <gtest/gtest.h>

#include <random>

#include "ops/run_text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

Program program_of(const std::string& text) { return parse_program(text, op_table()); }

// Counts %n down to zero and adds up its values.
const std::string kLoop = R"(HloModule loop
%condition {
  %s = (s32[], s32[]) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %zero = s32[] constant(0)
  ROOT %go = pred[] compare(%n, %zero), direction=GT
}
%body {
  %s = (s32[], s32[]) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %sum = s32[] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %less = s32[] subtract(%n, %one)
  %more = s32[] add(%sum, %n)
  ROOT %next = (s32[], s32[]) tuple(%less, %more)
}
ENTRY %main {
  %n = s32[] parameter(0)
  %zero = s32[] constant(0)
  %start = (s32[], s32[]) tuple(%n, %zero)
  ROOT %end = (s32[], s32[]) while(%start), condition=%condition, body=%body
}
)";

TEST(Evaluate, RunsLoopsWhileThePredicateHolds) {
  const Program program = program_of(kLoop);
  EXPECT_EQ(evaluate(program, {Literal::scalar<std::int32_t>(5)}).str(), "(0, 15)");
  EXPECT_EQ(evaluate(program, {Literal::scalar<std::int32_t>(-1)}).str(), "(-1, 0)");
}

TEST(Evaluate, StopsLoopsAtTheTripLimit) {
  EvaluateOptions options;
  options.trip_limit = 3;
  const Program program = program_of(kLoop);
  EXPECT_EQ(evaluate(program, {Literal::scalar<std::int32_t>(3)}, options).str(), "(0, 6)");
  EXPECT_EQ(testing::error_of([&] { evaluate(program, {Literal::scalar<std::int32_t>(4)}, options); }),
            "while %end: still running after 3 rounds, the trip limit");
}

TEST(Evaluate, RunsALoopWithoutCollectivesSeparatelyOnEachDevice) {
  Program program = program_of(kLoop);
  program.num_partitions = 2;
  const auto results =
      evaluate_lockstep(program, {{Literal::scalar<std::int32_t>(2)}, {Literal::scalar<std::int32_t>(4)}});
  EXPECT_EQ(results[0].str(), "(0, 3)");
  EXPECT_EQ(results[1].str(), "(0, 10)");
}

const std::string kBranches = R"(HloModule branches
%negated {
  %x = s32[] parameter(0)
  ROOT %y = s32[] negate(%x)
}
%same {
  ROOT %x = s32[] parameter(0)
}
%squared {
  %x = s32[] parameter(0)
  ROOT %y = s32[] multiply(%x, %x)
}
ENTRY %main {
  %i = s32[] parameter(0)
  %x = s32[] constant(7)
  ROOT %r = s32[] conditional(%i, %x, %x, %x), branch_computations={%negated, %same, %squared}
}
)";

TEST(Evaluate, TakesTheLastBranchForAnIndexOutOfRange) {
  const Program program = program_of(kBranches);
  const auto result = [&](std::int32_t index) { return evaluate(program, {Literal::scalar(index)}).str(); };
  EXPECT_EQ(result(0), "-7");
  EXPECT_EQ(result(1), "7");
  EXPECT_EQ(result(2), "49");
  EXPECT_EQ(result(3), "49");
  EXPECT_EQ(result(-1), "49");
}

// Adds up %x over both devices, %n times.
const std::string kCollectiveLoop = R"(HloModule loop, num_partitions=2
%sum {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %c = s32[] add(%a, %b)
}
%condition {
  %s = (s32[], s32[]) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %zero = s32[] constant(0)
  ROOT %go = pred[] compare(%n, %zero), direction=GT
}
%body {
  %s = (s32[], s32[]) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %x = s32[] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %less = s32[] subtract(%n, %one)
  %all = s32[] all-reduce(%x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%sum
  ROOT %next = (s32[], s32[]) tuple(%less, %all)
}
ENTRY %main {
  %n = s32[] parameter(0)
  %x = s32[] parameter(1)
  %start = (s32[], s32[]) tuple(%n, %x)
  ROOT %end = (s32[], s32[]) while(%start), condition=%condition, body=%body
}
)";

std::vector<Literal> two(std::int32_t n, std::int32_t x) { return {Literal::scalar(n), Literal::scalar(x)}; }

TEST(EvaluateLockstep, CollectivesInLoopsSeeAllDevices) {
  const auto results = evaluate_lockstep(program_of(kCollectiveLoop), {two(2, 3), two(2, 4)});
  EXPECT_EQ(results[0].str(), "(0, 14)");
  EXPECT_EQ(results[1].str(), "(0, 14)");
}

TEST(EvaluateLockstep, PredicatesMustAgreeAmongTheDevicesOfACollectiveInside) {
  EXPECT_EQ(testing::error_of([] {
              evaluate_lockstep(program_of(kCollectiveLoop), {two(1, 3), two(2, 4)});
            }),
            "all-reduce: device 1 of the group {0,1} executes it, device 0 does not\n"
            "  at   %all: s32[]\n"
            "  in   while %end, where devices {1} of {0,1} took this branch");
}

// Devices 0 and 2 add up their values in as many iterations as they specify, and so do devices 1 and 3.
TEST(EvaluateLockstep, GroupsOfACollectiveInALoopMayIterateDifferently) {
  std::string text = kCollectiveLoop;
  text.replace(text.find("num_partitions=2"), 16, "num_partitions=4");
  text.replace(text.find("{{0,1}}"), 7, "{{0,2},{1,3}}");
  const auto results = evaluate_lockstep(program_of(text), {two(1, 3), two(3, 4), two(1, 5), two(3, 6)});
  EXPECT_EQ(results[0].str(), "(0, 8)");
  EXPECT_EQ(results[1].str(), "(0, 40)");
  EXPECT_EQ(results[2].str(), "(0, 8)");
  EXPECT_EQ(results[3].str(), "(0, 40)");
}

constexpr auto kBranchOfAPair = R"(HloModule m, num_partitions=4
%exchange {
  %x = s32[] parameter(0)
  ROOT %r = s32[] collective-permute(%x), channel_id=1, source_target_pairs={{0,2},{2,0},{1,3}}
}
%same { ROOT %x = s32[] parameter(0) }
ENTRY %main {
  %c = pred[] parameter(0)
  %x = s32[] parameter(1)
  ROOT %r = s32[] conditional(%c, %x, %x), true_computation=%exchange, false_computation=%same
}
)";
std::vector<Literal> branch(bool taken, std::int32_t x) { return {Literal::scalar(taken), Literal::scalar(x)}; }

TEST(EvaluateLockstep, PairsOfAPermuteTakeABranchTogether) {
  const Program program = program_of(kBranchOfAPair);
  const auto results =
      evaluate_lockstep(program, {branch(true, 3), branch(false, 4), branch(true, 5), branch(false, 6)});
  EXPECT_EQ(results[0].str(), "5");
  EXPECT_EQ(results[1].str(), "4");
  EXPECT_EQ(results[2].str(), "3");
  EXPECT_EQ(results[3].str(), "6");
  EXPECT_EQ(testing::error_of([&] {
              evaluate_lockstep(program, {branch(false, 3), branch(false, 4), branch(true, 5), branch(true, 6)});
            }),
            "collective-permute: device 2 of the group {0,2} executes it, device 0 does not\n"
            "  at   %r: s32[]\n"
            "  in   conditional %r, where devices {2,3} of {0,1,2,3} took this branch");
}

TEST(EvaluateLockstep, PartitionIdIsTheDevice) {
  const Program program =
      program_of("HloModule m, num_partitions=3\nENTRY %main {\n  ROOT %p = u32[] partition-id()\n}\n");
  const auto results = evaluate_lockstep(program, {{}, {}, {}});
  EXPECT_EQ(results[0].str(), "0");
  EXPECT_EQ(results[2].str(), "2");
  EvaluateOptions options;
  options.partition = 1;
  EXPECT_EQ(evaluate(program, {}, options).str(), "1");
}

TEST(Evaluate, NamesArgumentsThatDoNotFit) {
  const Program program = program_of(kLoop);
  EXPECT_EQ(testing::error_of([&] { evaluate(program, {}); }), "%main takes 1 arguments, got 0");
  EXPECT_EQ(testing::error_of([&] { evaluate(program, {Literal::scalar<float>(1)}); }),
            "parameter: argument 0 is f32[], %n is s32[]\n  at   %n: s32[]");
  EXPECT_EQ(testing::error_of([&] { evaluate_lockstep(program_of(kCollectiveLoop), {two(1, 1)}); }),
            "the program is for 2 devices, but there are arguments for 1");
}

TEST(Evaluate, OneDeviceCannotRunACollectiveAmongSeveral) {
  const std::string text = testing::error_of([] { evaluate(program_of(kCollectiveLoop), two(1, 1)); });
  EXPECT_EQ(text.substr(0, text.find('\n')), "all-reduce: device 0 of the group {0,1} executes it, device 1 does not");
}

TEST(Evaluate, ObserveReceivesEveryValueAndMayChangeIt) {
  const Program program = program_of(
      "HloModule m\nENTRY %main {\n  %x = s32[] parameter(0)\n  %y = s32[] negate(%x)\n  ROOT %z = s32[] add(%x, "
      "%y)\n}\n");
  EvaluateOptions options;
  std::vector<std::string> seen;
  options.observe = [&](std::int64_t, const Computation& computation, Id id, Literal& value) {
    seen.push_back(computation[id].name + "=" + value.str());
    if (computation[id].name == "y") value = Literal::scalar<std::int32_t>(100);
  };
  EXPECT_EQ(evaluate(program, {Literal::scalar<std::int32_t>(5)}, options).str(), "105");
  EXPECT_EQ(seen, (std::vector<std::string>{"x=5", "y=-5", "z=105"}));
}

}  // namespace
}  // namespace tessera

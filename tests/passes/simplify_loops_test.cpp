// SPDX-License-Identifier: Apache-2.0
// The state of simplified loops, and that they compute the same values.
#include <gtest/gtest.h>

#include <random>

#include "tessera/ir/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

Program read(std::string_view text) { return parse_program(text, op_table()); }

std::vector<std::pair<const Computation*, const Instruction*>> loops(const Program& program) {
  std::vector<std::pair<const Computation*, const Instruction*>> out;
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      if (instruction.op->role == Role::kWhile) out.emplace_back(computation.get(), &instruction);
  return out;
}

// Returns the simplified program. Checks that it gives the same values.
Program simplified(std::string_view text) {
  const Program before = read(text);
  Program after = simplify_loops(before);
  verify(after);
  const auto arguments = seeded_arguments(before, 7);
  EXPECT_EQ(evaluate(before, arguments), evaluate(after, arguments)) << print_program(after);
  EXPECT_EQ(print_program(simplify_loops(after)), print_program(after));
  return after;
}

// Returns the state types of all loops, inner loops first.
std::string states(const Program& program) {
  std::string out;
  for (const auto& [computation, loop] : loops(program)) out += (out.empty() ? "" : " ") + loop->type.str();
  return out;
}

std::string text_of(std::string_view body, std::string_view entry) {
  return fmt::format(R"(
HloModule m
%more (s: (s32[], f32[3], f32[3], f32[3])) -> pred[] {{
  %s = (s32[], f32[3], f32[3], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(5)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}}
%body (s: (s32[], f32[3], f32[3], f32[3])) -> (s32[], f32[3], f32[3], f32[3]) {{
  %s = (s32[], f32[3], f32[3], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %a = f32[3] get-tuple-element(%s), index=1
  %b = f32[3] get-tuple-element(%s), index=2
  %c = f32[3] get-tuple-element(%s), index=3
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  {}
}}
ENTRY %main (x: f32[3], y: f32[3]) -> {}
}})",
                     body, entry);
}

TEST(SimplifyLoops, RemoveElementsThatOnlyTheyThemselvesRead) {
  const std::string_view entry = R"((f32[3], f32[3]) {
  %x = f32[3] parameter(0)
  %y = f32[3] parameter(1)
  %zero = s32[] constant(0)
  %init = (s32[], f32[3], f32[3], f32[3]) tuple(%zero, %x, %y, %y)
  %loop = (s32[], f32[3], f32[3], f32[3]) while(%init), condition=%more, body=%body
  %last = f32[3] get-tuple-element(%loop), index=1
  %given = f32[3] get-tuple-element(%loop), index=3
  ROOT %r = (f32[3], f32[3]) tuple(%last, %given))";
  // Nothing reads the value that b accumulates; c is invariant and is read after the loop.
  const Program out = simplified(text_of(R"(%d = f32[3] add(%a, %a)
  %e = f32[3] multiply(%b, %d)
  ROOT %t = (s32[], f32[3], f32[3], f32[3]) tuple(%next, %d, %e, %c))",
                                         entry));
  EXPECT_EQ(states(out), "(s32[], f32[3])");
  EXPECT_EQ(known_trip_count(out, *loops(out)[0].first, *loops(out)[0].second), 5);
  // b reaches a through c: all elements stay.
  const Program all = simplified(text_of(R"(%d = f32[3] add(%a, %c)
  ROOT %t = (s32[], f32[3], f32[3], f32[3]) tuple(%next, %d, %a, %b))",
                                         entry));
  EXPECT_EQ(states(all), "(s32[], f32[3], f32[3], f32[3])");
  // An instruction that uses the complete state reads all of its elements.
  const Program complete = simplified(text_of(R"(%d = f32[3] add(%a, %a)
  ROOT %t = (s32[], f32[3], f32[3], f32[3]) tuple(%next, %d, %a, %c))",
                                              R"((s32[], f32[3], f32[3], f32[3]) {
  %x = f32[3] parameter(0)
  %y = f32[3] parameter(1)
  %zero = s32[] constant(0)
  %init = (s32[], f32[3], f32[3], f32[3]) tuple(%zero, %x, %y, %y)
  ROOT %loop = (s32[], f32[3], f32[3], f32[3]) while(%init), condition=%more, body=%body)"));
  EXPECT_EQ(states(complete), "(s32[], f32[3], f32[3])");
}

constexpr std::string_view kConstants = R"(
HloModule m
%more (s: (s32[], s32[], f32[2,3], f32[3], f32[2,3], f32[2,3])) -> pred[] {
  %s = (s32[], s32[], f32[2,3], f32[3], f32[2,3], f32[2,3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] get-tuple-element(%s), index=1
  ROOT %less = pred[] compare(%i, %n), direction=LT
}
%body (s: (s32[], s32[], f32[2,3], f32[3], f32[2,3], f32[2,3])) -> (s32[], s32[], f32[2,3], f32[3], f32[2,3], f32[2,3]) {
  %s = (s32[], s32[], f32[2,3], f32[3], f32[2,3], f32[2,3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] get-tuple-element(%s), index=1
  %halves = f32[2,3] get-tuple-element(%s), index=2
  %row = f32[3] get-tuple-element(%s), index=3
  %w = f32[2,3] get-tuple-element(%s), index=4
  %a = f32[2,3] get-tuple-element(%s), index=5
  %one = s32[] constant(1)
  %next = s32[] add(%one, %i)
  %rows = f32[2,3] broadcast(%row), dimensions={1}
  %b = f32[2,3] multiply(%a, %halves)
  %c = f32[2,3] add(%b, %rows)
  %d = f32[2,3] add(%c, %w)
  ROOT %t = (s32[], s32[], f32[2,3], f32[3], f32[2,3], f32[2,3]) tuple(%next, %n, %halves, %row, %w, %d)
}
ENTRY %main (x: f32[2,3], w: f32[2,3]) -> (f32[2,3], f32[2,3], f32[2,3]) {
  %x = f32[2,3] parameter(0)
  %w = f32[2,3] parameter(1)
  %zero = s32[] constant(0)
  %four = s32[] constant(4)
  %half = f32[] constant(0.5)
  %halves = f32[2,3] broadcast(%half), dimensions={}
  %row = f32[3] iota(), iota_dimension=0
  %init = (s32[], s32[], f32[2,3], f32[3], f32[2,3], f32[2,3]) tuple(%zero, %four, %halves, %row, %w, %x)
  %loop = (s32[], s32[], f32[2,3], f32[3], f32[2,3], f32[2,3]) while(%init), condition=%more, body=%body, backend_config={"known_induction_variable":{"tuple_index":"0"},"other":{"tuple_index":"5"}}
  %halves_again = f32[2,3] get-tuple-element(%loop), index=2
  %w_again = f32[2,3] get-tuple-element(%loop), index=4
  %last = f32[2,3] get-tuple-element(%loop), index=5
  ROOT %r = (f32[2,3], f32[2,3], f32[2,3]) tuple(%halves_again, %w_again, %last)
})";

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string out(text);
  for (auto at = out.find(what); at != std::string::npos; at = out.find(what, at + with.size()))
    out.replace(at, what.size(), with);
  return out;
}

TEST(SimplifyLoops, RematerializeConstantsInsideAndReadInitialValuesOfInvariants) {
  const Program out = simplified(kConstants);
  EXPECT_EQ(states(out), "(s32[], f32[2,3], f32[2,3])");
  const Computation& entry = out.entry_computation();
  const Instruction& root = entry[entry.root];
  EXPECT_EQ(entry[root.operands[0]].op->name, "broadcast");
  EXPECT_EQ(entry[root.operands[1]].op->role, Role::kParameter);
  // The limit was an element of the state. Now it is known, and the notes have the indices of the remaining elements.
  EXPECT_EQ(known_trip_count(out, entry, *loops(out)[0].second), 4);
  EXPECT_NE(print_program(out).find(R"({"known_induction_variable":{"tuple_index":"0"},"other":{"tuple_index":"2"}})"),
            std::string::npos);
}

TEST(SimplifyLoops, KeepElementsWhoseAnnotationDiffersFromTheInitialValue) {
  std::string text = replaced(kConstants, "HloModule m", "HloModule m, num_partitions=2");
  text = replaced(text, "%halves = f32[2,3] get-tuple-element(%s), index=2",
                  "%halves = f32[2,3] get-tuple-element(%s), index=2, sharding={devices=[2,1]<=[2]}");
  EXPECT_EQ(states(simplified(text)), "(s32[], f32[2,3], f32[2,3], f32[2,3])");
}

TEST(SimplifyLoops, DoNotChangeLoopsWithSideEffects) {
  const std::string text = replaced(kConstants, "%one = s32[] constant(1)",
                                    R"(%one = s32[] constant(1)
  %told = f32[2,3] custom-call(%a), custom_call_target="tell", custom_call_has_side_effect=true)");
  const Program before = read(text);
  EXPECT_EQ(print_program(simplify_loops(before)), print_program(before));
}

constexpr std::string_view kNested = R"(
HloModule m
%inner_more (s: (s32[], f32[3], f32[3], f32[3])) -> pred[] {
  %s = (s32[], f32[3], f32[3], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(2)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}
%inner (s: (s32[], f32[3], f32[3], f32[3])) -> (s32[], f32[3], f32[3], f32[3]) {
  %s = (s32[], f32[3], f32[3], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %a = f32[3] get-tuple-element(%s), index=1
  %ones = f32[3] get-tuple-element(%s), index=2
  %log = f32[3] get-tuple-element(%s), index=3
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %b = f32[3] add(%a, %ones)
  %longer = f32[3] add(%log, %b)
  ROOT %t = (s32[], f32[3], f32[3], f32[3]) tuple(%next, %b, %ones, %longer)
}
%outer_more (s: (s32[], f32[3], f32[3], f32[3])) -> pred[] {
  %s = (s32[], f32[3], f32[3], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(3)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}
%outer (s: (s32[], f32[3], f32[3], f32[3])) -> (s32[], f32[3], f32[3], f32[3]) {
  %s = (s32[], f32[3], f32[3], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %a = f32[3] get-tuple-element(%s), index=1
  %ones = f32[3] get-tuple-element(%s), index=2
  %log = f32[3] get-tuple-element(%s), index=3
  %zero = s32[] constant(0)
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %init = (s32[], f32[3], f32[3], f32[3]) tuple(%zero, %a, %ones, %log)
  %loop = (s32[], f32[3], f32[3], f32[3]) while(%init), condition=%inner_more, body=%inner
  %b = f32[3] get-tuple-element(%loop), index=1
  %ones_again = f32[3] get-tuple-element(%loop), index=2
  ROOT %t = (s32[], f32[3], f32[3], f32[3]) tuple(%next, %b, %ones_again, %log)
}
ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3] parameter(0)
  %zero = s32[] constant(0)
  %one = f32[] constant(1)
  %ones = f32[3] broadcast(%one), dimensions={}
  %init = (s32[], f32[3], f32[3], f32[3]) tuple(%zero, %x, %ones, %x)
  %loop = (s32[], f32[3], f32[3], f32[3]) while(%init), condition=%outer_more, body=%outer
  ROOT %last = f32[3] get-tuple-element(%loop), index=1
})";

TEST(SimplifyLoops, SimplifyNestedLoopsFromInsideAndOutside) {
  // `ones` moves from the outer loop into the inner one. The outer log can be removed after the inner one.
  EXPECT_EQ(states(simplified(kNested)), "(s32[], f32[3]) (s32[], f32[3])");
}

TEST(SimplifyLoops, RemoveLoopsIfOnlyInitialValuesAreRead) {
  const Program out =
      simplified(text_of("ROOT %t = (s32[], f32[3], f32[3], f32[3]) tuple(%next, %a, %b, %c)", R"(f32[3] {
  %x = f32[3] parameter(0)
  %y = f32[3] parameter(1)
  %zero = s32[] constant(0)
  %init = (s32[], f32[3], f32[3], f32[3]) tuple(%zero, %x, %y, %y)
  %loop = (s32[], f32[3], f32[3], f32[3]) while(%init), condition=%more, body=%body
  ROOT %given = f32[3] get-tuple-element(%loop), index=3)"));
  EXPECT_EQ(states(out), "");
}

TEST(SimplifyLoops, LoopsThatShareABodyShareTheNewOne) {
  const std::string text = text_of(R"(%d = f32[3] add(%a, %c)
  ROOT %t = (s32[], f32[3], f32[3], f32[3]) tuple(%next, %d, %b, %c))",
                                   R"(f32[3] {
  %x = f32[3] parameter(0)
  %y = f32[3] parameter(1)
  %zero = s32[] constant(0)
  %first = (s32[], f32[3], f32[3], f32[3]) tuple(%zero, %x, %y, %y)
  %loop = (s32[], f32[3], f32[3], f32[3]) while(%first), condition=%more, body=%body
  %half = f32[3] get-tuple-element(%loop), index=1
  %second = (s32[], f32[3], f32[3], f32[3]) tuple(%zero, %half, %y, %x)
  %again = (s32[], f32[3], f32[3], f32[3]) while(%second), condition=%more, body=%body
  ROOT %r = f32[3] get-tuple-element(%again), index=1)");
  const Program out = simplified(text);
  ASSERT_EQ(states(out), "(s32[], f32[3], f32[3]) (s32[], f32[3], f32[3])");
  EXPECT_EQ(loops(out)[0].second->called, loops(out)[1].second->called);
}

// ---- random loops ----------------------------------------------------------------------------------------------------

// Any initial values, and any changes: invariant, swapped, summed, constant.
std::string random_loop(std::mt19937& dice) {
  const auto below = [&](int n) { return static_cast<int>(dice() % static_cast<unsigned>(n)); };
  const int size = 2 + below(5);
  std::string state = "(s32[]";
  std::string init = "%zero";
  std::string next = "%next";
  std::string body;
  std::string main;
  for (int e = 1; e <= size; ++e) {
    state += ", f32[3]";
    const char* const starts[] = {"%x", "%y", "%halves", "%row", "%sum"};
    init += fmt::format(", {}", starts[below(5)]);
    body += fmt::format("  %e{} = f32[3] get-tuple-element(%s), index={}\n", e, e);
  }
  for (int e = 1; e <= size; ++e) {
    const int other = 1 + below(size);
    const int third = 1 + below(size);
    body += fmt::format("  %n{} = f32[3] {}(%e{}, %e{})\n", e, below(2) == 0 ? "maximum" : "subtract", other, third);
    next += below(5) < 3 ? fmt::format(", %e{}", below(4) == 0 ? other : e) : fmt::format(", %n{}", e);
  }
  state += ")";
  const int results = 1 + below(size);
  std::string types;
  std::string values;
  for (int k = 0; k < results; ++k) {
    main += fmt::format("  %r{} = f32[3] get-tuple-element(%loop), index={}\n", k, 1 + below(size));
    types += fmt::format("{}f32[3]", k == 0 ? "" : ", ");
    values += fmt::format("{}%r{}", k == 0 ? "" : ", ", k);
  }
  return fmt::format(R"(
HloModule m
%more (s: {0}) -> pred[] {{
  %s = {0} parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant({1})
  ROOT %less = pred[] compare(%i, %n), direction=LT
}}
%body (s: {0}) -> {0} {{
  %s = {0} parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
{2}  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  ROOT %t = {0} tuple({3})
}}
ENTRY %main (x: f32[3], y: f32[3]) -> ({4}) {{
  %x = f32[3] parameter(0)
  %y = f32[3] parameter(1)
  %zero = s32[] constant(0)
  %half = f32[] constant(0.5)
  %halves = f32[3] broadcast(%half), dimensions={{}}
  %row = f32[3] iota(), iota_dimension=0
  %sum = f32[3] add(%x, %y)
  %init = {0} tuple({5})
  %loop = {0} while(%init), condition=%more, body=%body
{6}  ROOT %r = ({4}) tuple({7})
}})",
                     state, below(4), body, next, types, init, main, values);
}

TEST(SimplifyLoops, KeepTheValuesOfRandomLoops) {
  std::mt19937 dice(11);
  std::size_t dropped = 0;
  for (int k = 0; k < 300; ++k) {
    const std::string text = random_loop(dice);
    SCOPED_TRACE(text);
    const Program out = simplified(text);
    if (::testing::Test::HasFailure()) return;
    const Program before = read(text);
    for (const auto& [computation, loop] : loops(before)) dropped += loop->type.elements().size();
    for (const auto& [computation, loop] : loops(out)) dropped -= loop->type.elements().size();
  }
  EXPECT_GT(dropped, 100U);
}

TEST(SimplifyLoops, RandomLoopsArePartitionedCorrectly) {
  std::mt19937 dice(12);
  for (int k = 0; k < 40; ++k) {
    std::string text = replaced(random_loop(dice), "HloModule m", "HloModule m, num_partitions=2");
    text = replaced(text, "%x = f32[3] parameter(0)", "%x = f32[3] parameter(0), sharding={devices=[2]<=[2]}");
    const CheckReport report = check_partition(read(text));
    EXPECT_TRUE(report.passed) << report.failures.front() << text;
    EXPECT_GT(program_stats(partition(read(text)).program).peak_bytes_per_device, 0) << text;  // a schedule exists
  }
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Compares the text of a program before and after a pass.
#include <gtest/gtest.h>

#include "passes/expect_pass.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

using namespace passes_tests;  // NOLINT(google-build-using-namespace)

// ---- dead code -----------------------------------------------------------------------------------------------------

TEST(RemoveDeadCode, DropsUnusedValuesAndUncalledComputationsButNoParameter) {
  expect_pass(remove_dead_code, R"(
HloModule m
%unused (a: f32[]) -> f32[] {
  ROOT %a = f32[] parameter(0)
}
%used (a: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %dead = f32[] negate(%a)
  ROOT %sine = f32[] sine(%a)
}
ENTRY %main (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  %gone = f32[] call(%y), to_apply=%unused
  ROOT %r = f32[] call(%x), to_apply=%used
})",
              R"(
HloModule m
%used (a: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %sine = f32[] sine(%a)
}
ENTRY %main (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %r = f32[] call(%x), to_apply=%used
})");
}

// ---- duplicates ----------------------------------------------------------------------------------------------------

TEST(MergeDuplicates, MergesEqualOpsOperandsAndAttributes) {
  expect_pass(merge_duplicates, R"(
HloModule m
ENTRY %main (x: f32[2,3]) -> f32[3,2] {
  %x = f32[2,3] parameter(0)
  %a = f32[3,2] transpose(%x), dimensions={1,0}
  %b = f32[3,2] transpose(%x), dimensions={1,0}
  %c = f32[3,2] negate(%a)
  %d = f32[3,2] negate(%b)
  ROOT %r = f32[3,2] add(%c, %d)
})",
              R"(
HloModule m
ENTRY %main (x: f32[2,3]) -> f32[3,2] {
  %x = f32[2,3] parameter(0)
  %a = f32[3,2] transpose(%x), dimensions={1,0}
  %c = f32[3,2] negate(%a)
  ROOT %r = f32[3,2] add(%c, %c)
})");
}

TEST(MergeDuplicates, KeepsValuesThatDifferInShardingOrFrontendAttributes) {
  expect_unchanged(merge_duplicates, R"(
HloModule m, num_partitions=2
ENTRY %main (x: f32[4]) -> (f32[4], f32[4], f32[4], f32[4]) {
  %x = f32[4] parameter(0)
  %a = f32[4] copy(%x), sharding={devices=[2]<=[2]}
  %b = f32[4] copy(%x), sharding={replicated}
  %c = f32[4] copy(%x), sharding={replicated}, frontend_attributes={tessera.phase="backward"}
  %d = f32[4] copy(%x)
  ROOT %r = (f32[4], f32[4], f32[4], f32[4]) tuple(%a, %b, %c, %d)
})");
}

TEST(MergeDuplicates, CommentsOfAFrontEndDoNotPreventMerging) {
  expect_pass(merge_duplicates, R"(
HloModule m
ENTRY %main (x: f32[4,4]) -> (f32[4,4], f32[4,4]) {
  %x = f32[4,4] parameter(0)
  %a = f32[4,4] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %b = f32[4,4] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, frontend_attributes={grad_x="false"}
  ROOT %r = (f32[4,4], f32[4,4]) tuple(%a, %b)
})",
              R"(
HloModule m
ENTRY %main (x: f32[4,4]) -> (f32[4,4], f32[4,4]) {
  %x = f32[4,4] parameter(0)
  %a = f32[4,4] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %r = (f32[4,4], f32[4,4]) tuple(%a, %a)
})");
}

TEST(MergeDuplicates, ComparesTheContentOfComputationsNotTheirNames) {
  expect_pass(merge_duplicates, R"(
HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
%other_sum (c: f32[], d: f32[]) -> f32[] {
  %c = f32[] parameter(0)
  %d = f32[] parameter(1)
  ROOT %t = f32[] add(%c, %d), metadata={op_name="again"}
}
%difference (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%b, %a)
}
ENTRY %main (x: f32[2,3], zero: f32[]) -> (f32[3], f32[3], f32[3]) {
  %x = f32[2,3] parameter(0)
  %zero = f32[] parameter(1)
  %first = f32[3] reduce(%x, %zero), dimensions={0}, to_apply=%sum
  %second = f32[3] reduce(%x, %zero), dimensions={0}, to_apply=%other_sum
  %third = f32[3] reduce(%x, %zero), dimensions={0}, to_apply=%difference
  ROOT %r = (f32[3], f32[3], f32[3]) tuple(%first, %second, %third)
})",
              R"(
HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
%difference (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%b, %a)
}
ENTRY %main (x: f32[2,3], zero: f32[]) -> (f32[3], f32[3], f32[3]) {
  %x = f32[2,3] parameter(0)
  %zero = f32[] parameter(1)
  %first = f32[3] reduce(%x, %zero), dimensions={0}, to_apply=%sum
  %third = f32[3] reduce(%x, %zero), dimensions={0}, to_apply=%difference
  ROOT %r = (f32[3], f32[3], f32[3]) tuple(%first, %first, %third)
})");
}

// ---- side effects --------------------------------------------------------------------------------------------------

// Calls with a side effect all stay, in their order. Equal calls without side effects are merged.
constexpr std::string_view kEffects = R"(
HloModule m
%told (a: f32[2]) -> f32[2] {
  %a = f32[2] parameter(0)
  %t = f32[2] custom-call(%a), custom_call_target="tell", custom_call_has_side_effect=true
  ROOT %n = f32[2] negate(%a)
}
ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2] parameter(0)
  %first = f32[2] custom-call(%x), custom_call_target="tell", custom_call_has_side_effect=true
  %inner = f32[2] call(%x), to_apply=%told
  %second = f32[2] custom-call(%x), custom_call_target="tell", custom_call_has_side_effect=true
  %again = f32[2] call(%x), to_apply=%told
  %sine = f32[2] sine(%x)
  %third = () custom-call(%sine), custom_call_target="tell", custom_call_has_side_effect=true
  ROOT %r = f32[2] cosine(%x)
})";

TEST(SideEffects, KeepTheirInstructionsOnceEachAndInOrder) {
  expect_unchanged(remove_dead_code, kEffects);
  expect_unchanged(merge_duplicates, kEffects);
  expect_unchanged(simplify, kEffects);
}

TEST(SideEffects, DependOnTheInstructionNotOnlyOnTheOp) {
  std::string harmless(kEffects);
  const std::string_view mark = ", custom_call_has_side_effect=true";
  for (auto at = harmless.find(mark); at != std::string::npos; at = harmless.find(mark))
    harmless.erase(at, mark.size());
  const std::string_view rest = R"(
HloModule m
ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2] parameter(0)
  ROOT %r = f32[2] cosine(%x)
})";
  expect_pass(remove_dead_code, harmless, rest);
  expect_pass(merge_duplicates, harmless, rest);
}

// ---- rewriter ------------------------------------------------------------------------------------------------------

TEST(Rewriter, ReplacesValuesAndMapsTheRest) {
  const Program before = parsed(R"(
HloModule m
ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3] parameter(0)
  %a = f32[3] sine(%x)
  ROOT %r = f32[3] add(%a, %x)
})");
  const Program after = rewrite(before, [](ComputationRewriter& rewriter, Id id) -> Value {
    if (rewriter.from()[id].op->name != "sine") return {};
    return rewriter.builder().emit(op_table().get("cosine"), rewriter.mapped(rewriter.from()[id].operands));
  });
  EXPECT_EQ(print_program(after), print_program(parsed(R"(
HloModule m
ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3] parameter(0)
  %cosine = f32[3] cosine(%x)
  ROOT %r = f32[3] add(%cosine, %x)
})")));
}

// ---- callees -------------------------------------------------------------------------------------------------------

TEST(SeparateCallees, LoopsThatShareTheirComputationsGetCopies) {
  const std::string computations = R"(
%c (s: (s32[], f32[4])) -> pred[] {
  %s = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(3)
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}
%b (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[4] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %y = f32[4] tanh(%x)
  ROOT %t = (s32[], f32[4]) tuple(%j, %y)
}
ENTRY %main (p: (s32[], f32[4]), q: (s32[], f32[4])) -> ((s32[], f32[4]), (s32[], f32[4])) {
  %p = (s32[], f32[4]) parameter(0)
  %q = (s32[], f32[4]) parameter(1)
  %first = (s32[], f32[4]) while(%p), condition=%c, body=%b
)";
  const Program shared = parsed("HloModule m" + computations +
                                "  %second = (s32[], f32[4]) while(%q), condition=%c, body=%b\n"
                                "  ROOT %r = ((s32[], f32[4]), (s32[], f32[4])) tuple(%first, %second)\n}");
  const Program out = separate_callees(shared);
  verify(out);
  ASSERT_EQ(out.computations.size(), 5U);
  const Computation& entry = out.entry_computation();
  for (const std::size_t which : {0U, 1U})
    EXPECT_NE(entry[2].called[which], entry[3].called[which]) << "of a while: its condition, its body";
  EXPECT_EQ(separate_callees(out).computations.size(), 5U);
}

}  // namespace
}  // namespace tessera

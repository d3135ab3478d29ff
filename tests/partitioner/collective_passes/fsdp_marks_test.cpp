// SPDX-License-Identifier: Apache-2.0
// What passes over collectives may do to gathers and reductions with the marks of FSDP, and the dummies for debugging.
#include <gtest/gtest.h>

#include "partitioner/collective_passes/collective_programs.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"

namespace tessera::testing {
namespace {

std::string unshard_marks(const std::string& more = "") {
  return ", frontend_attributes={tessera.unit=\"h.0\",tessera.recompute=\"true\"" + more + "}";
}
const char* const kBackwardPhase = ",tessera.phase=\"backward\"";

// An unshard of %x, and one of %first (%x, or %late from an opt-barrier) transposed, with other marks.
Program two_unshards(const std::string& first, const std::string& marks) {
  return local_program(
      6, "  %x = f32[2,5] parameter(0)\n  %y = f32[] parameter(1)\n  %a = f32[6,5] all-gather(%x), " + over(kRows, 1) +
             ", dimensions={0}" + unshard_marks() +
             "\n  %both = (f32[2,5], f32[]) tuple(%x, %y)\n  %held = (f32[2,5], f32[]) opt-barrier(%both)\n"
             "  %late = f32[2,5] get-tuple-element(%held), index=0\n  %t = f32[5,2] transpose(%" +
             first + "), dimensions={1,0}\n  %b = f32[5,6] all-gather(%t), " + over(kRows, 2) + ", dimensions={1}" +
             marks + "\n  ROOT %r = (f32[6,5], f32[5,6]) tuple(%a, %b)\n");
}

Program with_shared_gathers(const Program& program) { return share_gathers(program); }

TEST(MarksOfFsdp, UnshardsOfOneUnitAndPassAreShared) {
  expect_collectives(with_shared_gathers, two_unshards("x", unshard_marks()), {{"all-gather", 1}});
}

TEST(MarksOfFsdp, ARepetitionInTheBackwardPassIsNotSharedWithTheForwardPass) {
  // Each of the two facts is sufficient: the phase differs, and the operand comes from an opt-barrier.
  expect_untouched(with_shared_gathers, two_unshards("x", unshard_marks(kBackwardPhase)));
  expect_untouched(with_shared_gathers, two_unshards("late", unshard_marks()));
  const Program optimized = optimize_collectives(two_unshards("late", unshard_marks(kBackwardPhase)));
  EXPECT_EQ(collectives_of(optimized), (Counts{{"all-gather", 2}}));
}

TEST(MarksOfFsdp, EqualGathersOfDifferentPassesAreNotMerged) {
  for (const char* phase : {"backward", "forward 2"}) {
    const Program program = local_program(
        6, "  %x = f32[2,5] parameter(0)\n  %a = f32[6,5] all-gather(%x), " + over(kRows, 1) + ", dimensions={0}" +
               unshard_marks() + "\n  %b = f32[6,5] all-gather(%x), " + over(kRows, 2) + ", dimensions={0}" +
               unshard_marks(fmt::format(",tessera.phase=\"{}\"", phase)) +
               "\n  ROOT %r = f32[6,5] multiply(%a, %b)\n");
    EXPECT_EQ(collectives_of(optimize_collectives(program)), (Counts{{"all-gather", 2}})) << phase;
  }
}

// %start is the first of this device's two rows.
const char* const kOwnRows =
    "  %id = u32[] partition-id()\n  %n = s32[] convert(%id)\n  %three = s32[] constant(3)\n"
    "  %k = s32[] remainder(%n, %three)\n  %two = s32[] constant(2)\n  %start = s32[] multiply(%k, %two)\n"
    "  %zero = s32[] constant(0)\n";

TEST(MarksOfFsdp, ASliceOfAnUnshardReadsTheShardAndOthersKeepTheUnshard) {
  const Program program =
      local_program(6, std::string("  %x = f32[2,5] parameter(0)\n") + kOwnRows + "  %g = f32[6,5] all-gather(%x), " +
                           over(kRows, 1) + ", dimensions={0}" + unshard_marks() +
                           "\n  %own = f32[2,5] dynamic-slice(%g, %start, %zero), dynamic_slice_sizes={2,5}\n"
                           "  ROOT %r = (f32[6,5], f32[2,5]) tuple(%g, %own)\n");
  const Program after = expect_collectives(simplify_collectives, program, {{"all-gather", 1}});
  EXPECT_EQ(print_program(after).find("dynamic-slice"), std::string::npos);
}

TEST(MarksOfFsdp, AStoredGradientThatIsOnlySlicedIsScatteredAndKeepsItsMark) {
  const Program program =
      local_program(6, std::string("  %x = f32[6,5] parameter(0)\n") + kOwnRows + "  %a = f32[6,5] all-reduce(%x), " +
                           over(kRows, 1) + ", to_apply=%add, frontend_attributes={tessera.barrier=\"true\"}\n" +
                           "  ROOT %own = f32[2,5] dynamic-slice(%a, %start, %zero), dynamic_slice_sizes={2,5}\n");
  const Program after = expect_collectives(simplify_collectives, program, {{"reduce-scatter", 1}});
  EXPECT_NE(print_program(after).find("tessera.barrier"), std::string::npos);
}

// ---- dummies ---------------------------------------------------------------------------------------------------------

std::string gradient_marks(const std::string& dummies) {
  return ", frontend_attributes={tessera.barrier=\"true\",tessera.dummy=\"" + dummies + "\"}";
}

// Unshards along both dims, a scattered gradient, and a gradient that stays complete.
Program marked_program(const std::string& dummies) {
  const std::string unshard = unshard_marks(",tessera.dummy=\"" + dummies + "\"");
  return local_program(6,
                       "  %x = f32[2,5] parameter(0)\n  %y = f32[6,5] parameter(1)\n  %z = f32[4] parameter(2)\n"
                       "  %rows = f32[6,5] all-gather(%x), " +
                           over(kRows, 1) + ", dimensions={0}" + unshard + "\n  %columns = f32[2,15] all-gather(%x), " +
                           over(kRows, 2) + ", dimensions={1}" + unshard + "\n  %s = f32[2,5] reduce-scatter(%y), " +
                           over(kRows, 3) + ", dimensions={0}, to_apply=%add" + gradient_marks(dummies) +
                           "\n  %a = f32[4] all-reduce(%z), " + over(kColumns, 4) + ", to_apply=%add" +
                           gradient_marks(dummies) +
                           "\n  ROOT %r = (f32[6,5], f32[2,15], f32[2,5], f32[4]) tuple(%rows, %columns, %s, %a)\n");
}

TEST(DummyCollectives, HaveTheRightTypesAndUseOnlyTheDevicesOwnElements) {
  const Program program = marked_program("gather,reduction,barrier");
  const Program after = dummy_collectives(program);
  verify(after);
  EXPECT_EQ(collectives_of(after), Counts{});
  EXPECT_EQ(difference(after, parse_program(print_program(after), op_table())), "");
  const auto arguments = arguments_of(program);
  const auto results = evaluate_lockstep(after, arguments);
  for (std::int64_t device = 0; device < program.num_partitions; ++device) {
    const auto& given = at(arguments, device);
    const auto leaves = at(results, device).leaves();
    const auto expect_element = [&](std::size_t leaf, std::int64_t i, const Literal& from, std::int64_t j) {
      EXPECT_EQ(element_as_double(leaves.at(leaf), i), element_as_double(from, j))
          << "device " << device << " leaf " << leaf << " at " << i;
    };
    for (std::int64_t i = 0; i < 30; ++i) {
      expect_element(0, i, given[0], i % 10);
      expect_element(1, i, given[0], i / 15 * 5 + i % 15 % 5);
    }
    for (std::int64_t i = 0; i < 10; ++i) expect_element(2, i, given[1], device % 3 * 10 + i);
    for (std::int64_t i = 0; i < 4; ++i) expect_element(3, i, given[2], i);
  }
}

TEST(DummyCollectives, ReplaceOnlyWhatTheMarkLists) {
  EXPECT_EQ(collectives_of(dummy_collectives(marked_program("gather"))),
            (Counts{{"reduce-scatter", 1}, {"all-reduce", 1}}));
  EXPECT_EQ(collectives_of(dummy_collectives(marked_program("reduction"))), (Counts{{"all-gather", 2}}));
  expect_untouched(dummy_collectives, marked_program("barrier"));
}

}  // namespace
}  // namespace tessera::testing

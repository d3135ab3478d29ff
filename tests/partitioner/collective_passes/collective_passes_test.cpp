// SPDX-License-Identifier: Apache-2.0
#include "tessera/partitioner/collective_passes/collective_passes.h"

#include "partitioner/collective_passes/collective_programs.h"
#include "tessera/passes/passes.h"

namespace tessera::testing {
namespace {

// ---- simplify ------------------------------------------------------------------------------------------------------

// Computes this device's coordinate along rows; %start is `part` times the coordinate.
std::string row_start(int part) {
  return fmt::format(
      "  %id = u32[] partition-id()\n  %n = s32[] convert(%id)\n  %three = s32[] constant(3)\n"
      "  %k = s32[] remainder(%n, %three)\n  %part = s32[] constant({})\n  %start = s32[] multiply(%k, %part)\n"
      "  %zero = s32[] constant(0)\n",
      part);
}

TEST(SimplifyCollectives, ASliceOfADevicesOwnPartOfAGatherIsTheOperand) {
  const auto text = [](const std::string& start) {
    return local_program(6, "  %x = f32[5,2] parameter(0)\n" + row_start(2) + "  %g = f32[5,6] all-gather(%x), " +
                                over(kRows, 1) + ", dimensions={1}\n  ROOT %r = f32[5,2] dynamic-slice(%g, %zero, %" +
                                start + "), dynamic_slice_sizes={5,2}\n");
  };
  expect_collectives(simplify_collectives, text("start"), {});
  expect_untouched(simplify_collectives, text("k"));     // overlapping parts
  expect_untouched(simplify_collectives, text("part"));  // the same part on all devices
}

TEST(SimplifyCollectives, ASliceOfAnAllReduceIsAReduceScatterInAnyOrderOfParts) {
  const auto text = [](const std::string& table, const std::string& more = "") {
    return local_program(
        6,
        "  %x = f32[6,5] parameter(0)\n  %id = u32[] partition-id()\n  %zero = s32[] constant(0)\n"
        "  %table = s32[6] constant(" +
            table +
            ")\n  %one = s32[1] dynamic-slice(%table, %id), "
            "dynamic_slice_sizes={1}\n  %start = s32[] reshape(%one)\n  %a = f32[6,5] all-reduce(%x), " +
            over(kRows, 1) + ", to_apply=%add\n  " + (more.empty() ? "ROOT " : "") +
            "%r = f32[2,5] dynamic-slice(%a, %start, %zero), dynamic_slice_sizes={2,5}\n" + more);
  };
  const Program before = text("{4, 0, 2, 0, 2, 4}");
  const Program after = expect_collectives(simplify_collectives, before, {{"reduce-scatter", 1}});
  EXPECT_EQ(program_stats(after).total_collective_bytes * 2, program_stats(before).total_collective_bytes);
  // The last start index is clamped.
  expect_collectives(simplify_collectives, text("{0, 2, 4, 0, 2, 9}"), {{"reduce-scatter", 1}});
  expect_untouched(simplify_collectives, text("{0, 2, 2, 0, 2, 4}"));
  expect_untouched(simplify_collectives, text("{0, 1, 4, 0, 2, 4}"));
  expect_untouched(simplify_collectives,
                   text("{0, 2, 4, 0, 2, 4}", "  ROOT %t = (f32[2,5], f32[6,5]) tuple(%r, %a)\n"));
}

TEST(SimplifyCollectives, AReduceScatterAndAGatherAreAnAllReduce) {
  const auto text = [](const std::string& groups, const std::string& marks) {
    return local_program(6, "  %x = f32[6,5] parameter(0)\n  %s = f32[2,5] reduce-scatter(%x), " + over(kRows, 1) +
                                ", dimensions={0}, to_apply=%max" + marks + "\n  ROOT %g = f32[6,5] all-gather(%s), " +
                                over(groups, 2) + ", dimensions={0}\n");
  };
  expect_collectives(simplify_collectives, text(kRows, ""), {{"all-reduce", 1}});
  expect_untouched(simplify_collectives, text("{{0,2,1},{3,4,5}}", ""));
  expect_untouched(simplify_collectives, text(kRows, ", frontend_attributes={tessera.barrier=\"true\"}"));
}

TEST(ReduceGathered, AGatherBeforeAReductionBecomesAReductionByTheGroup) {
  const std::string computations =
      "%least {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  %p = pred[] compare(%a, %b), direction=LT\n"
      "  ROOT %c = f32[] select(%p, %a, %b)\n}\n"
      "%second {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %c = f32[] copy(%b)\n}\n";
  // `part` computes %p [5,1] from %x [5,4].
  const auto text = [&](const std::string& part, const std::string& groups, const std::string& computation,
                        const std::string& marks = "") {
    return local_program(6,
                         "  %x = f32[5,4] parameter(0)\n  %z = f32[] constant(9)\n  %low = f32[] constant(2)\n" + part +
                             "  %g = f32[5,3] all-gather(%p), " + over(groups, 1) + ", dimensions={1}" + marks +
                             "\n  ROOT %r = f32[5] reduce(%g, %z), dimensions={1}, to_apply=%" + computation + "\n",
                         computations);
  };
  const auto reduced = [](const std::string& init) {
    return "  %y = f32[5,1,4] reshape(%x)\n  %p = f32[5,1] reduce(%y, %" + init +
           "), dimensions={2}, to_apply=%least\n";
  };
  const std::string taken = "  %p = f32[5,1] slice(%x), slice={[0:5], [1:2]}\n";
  const auto reduces = [](const Program& program) {
    const auto& all = program.entry_computation().instructions;
    return std::count_if(all.begin(), all.end(), [](const Instruction& i) { return i.op->name == "reduce"; });
  };
  const Counts one{{"all-reduce", 1}};
  EXPECT_EQ(reduces(expect_collectives(reduce_gathered, text(reduced("z"), kRows, "least"), one)), 1);
  EXPECT_EQ(reduces(expect_collectives(reduce_gathered, text(reduced("low"), kRows, "least"), one)), 2);
  EXPECT_EQ(reduces(expect_collectives(reduce_gathered, text(taken, kRows, "least"), one)), 1);
  // Reduces in the order of the group.
  expect_collectives(reduce_gathered, text(taken, "{{0,2,1},{4,5,3}}", "second"), one);
  expect_untouched(reduce_gathered, text(taken, kRows, "add"));
  expect_untouched(reduce_gathered, text(taken, kRows, "least", ", frontend_attributes={tessera.recompute=\"true\"}"));
}

TEST(SimplifyCollectives, CollectivesInGroupsOfOneAreRemoved) {
  expect_collectives(
      simplify_collectives,
      local_program(3, "  %x = f32[6,5] parameter(0)\n  %a = f32[6,5] all-reduce(%x), " + over("[3,1]<=[3]", 1) +
                           ", to_apply=%add\n  %g = f32[6,5] all-gather(%a), " + over("[3,1]<=[3]", 2) +
                           ", dimensions={1}\n  ROOT %p = f32[6,5] collective-permute(%g), channel_id=3, "
                           "source_target_pairs={{0,0},{1,1},{2,2}}\n"),
      {});
  expect_untouched(simplify_collectives,
                   local_program(3,
                                 "  %x = f32[5] parameter(0)\n  ROOT %p = f32[5] collective-permute(%x), channel_id=3, "
                                 "source_target_pairs={{0,0},{1,1}}\n"));
}

// ---- reassociate ---------------------------------------------------------------------------------------------------

Program reassociated(const Program& program) { return reassociate_reductions(program); }

// `expression` reads the reductions %a, %b, %c of parameters %x, %y, %z, and the parameter %p.
Program sums(const std::string& expression, const std::string& reducer = "add",
             const std::string& groups_of_b = kRows) {
  std::string body;
  int number = 0;
  for (const char* name : {"x", "y", "z", "p"}) body += fmt::format("  %{} = f32[6,5] parameter({})\n", name, number++);
  for (const auto& [name, operand, groups] :
       std::vector<std::array<std::string, 3>>{{"a", "x", kRows}, {"b", "y", groups_of_b}, {"c", "z", kRows}})
    body += fmt::format("  %{} = f32[6,5] all-reduce(%{}), {}, to_apply=%{}\n", name, operand, over(groups, ++number),
                        reducer);
  return remove_dead_code(local_program(6, body + expression));
}

TEST(ReassociateReductions, ASumOfSumsIsReducedOnce) {
  expect_collectives(reassociated, sums("  ROOT %r = f32[6,5] add(%a, %b)\n"), {{"all-reduce", 1}});
  expect_collectives(reassociated, sums("  ROOT %r = f32[6,5] subtract(%a, %b)\n"), {{"all-reduce", 1}});
  expect_collectives(reassociated, sums("  ROOT %r = f32[6,5] maximum(%a, %b)\n", "max"), {{"all-reduce", 1}});
}

TEST(ReassociateReductions, AChainOfMicroBatchesIsReducedOnceWithUnreducedTerms) {
  expect_collectives(reassociated, sums("  %s = f32[6,5] add(%a, %b)\n  ROOT %r = f32[6,5] add(%s, %c)\n"),
                     {{"all-reduce", 1}});
  expect_collectives(
      reassociated,
      sums("  %s = f32[6,5] add(%p, %a)\n  %t = f32[6,5] add(%s, %b)\n  ROOT %r = f32[6,5] add(%c, %t)\n"),
      {{"all-reduce", 1}});
  expect_collectives(
      reassociated,
      sums("  %s = f32[6,5] subtract(%a, %p)\n  %t = f32[6,5] subtract(%s, %b)\n  %n = f32[6,5] negate(%c)\n"
           "  ROOT %r = f32[6,5] add(%n, %t)\n"),
      {{"all-reduce", 1}});
}

TEST(ReassociateReductions, ExactScalingAndDataMovementMayBeInBetween) {
  const std::string scaled =
      "  %f = f32[] constant({})\n  %w = f32[6,5] broadcast(%f), dimensions={{}}\n  %s = f32[6,5] multiply(%a, %w)\n"
      "  %t = f32[6,5] multiply(%w, %b)\n  ROOT %r = f32[6,5] add(%s, %t)\n";
  expect_collectives(reassociated, sums(fmt::format(fmt::runtime(scaled), "0.25")), {{"all-reduce", 1}});
  expect_untouched(reassociated, sums(fmt::format(fmt::runtime(scaled), "0.3")));
  expect_collectives(reassociated,
                     sums("  %s = f32[30] reshape(%a)\n  %v = f32[5,6] transpose(%b), dimensions={1,0}\n"
                          "  %t = f32[30] reshape(%v)\n  ROOT %r = f32[30] add(%s, %t)\n"),
                     {{"all-reduce", 1}});
}

TEST(ReassociateReductions, OtherReductionsGroupsAndConsumersPreventIt) {
  expect_untouched(reassociated, sums("  ROOT %r = f32[6,5] add(%a, %b)\n", "max"));
  expect_untouched(reassociated, sums("  ROOT %r = f32[6,5] maximum(%a, %b)\n"));
  expect_untouched(reassociated, sums("  ROOT %r = f32[6,5] add(%a, %b)\n", "add", kColumns));
  expect_untouched(reassociated, sums("  ROOT %r = f32[6,5] multiply(%a, %b)\n"));
  expect_untouched(reassociated, sums("  %s = f32[6,5] add(%a, %b)\n  ROOT %r = (f32[6,5], f32[6,5]) tuple(%s, %a)\n"));
  // Reductions over the same group are still combined.
  expect_collectives(reassociated,
                     sums("  %s = f32[6,5] add(%b, %a)\n  ROOT %r = f32[6,5] add(%s, %c)\n", "add", kColumns),
                     {{"all-reduce", 3}});
}

TEST(ReassociateReductions, AppliesToReduceScattersWithinTheMemoryBoundButNotToStoredGradients) {
  const auto text = [](const std::string& marks) {
    std::string body = "  %p = f32[2,5] parameter(0)\n  %x = f32[6,5] parameter(1)\n  %y = f32[6,5] parameter(2)\n";
    for (const auto& [name, operand] : std::vector<std::pair<std::string, std::string>>{{"a", "x"}, {"b", "y"}})
      body += fmt::format("  %{} = f32[2,5] reduce-scatter(%{}), {}, dimensions={{0}}, to_apply=%add{}\n", name,
                          operand, over(kRows, name == "a" ? 1 : 2), marks);
    return local_program(6, body + "  %s = f32[2,5] add(%p, %a)\n  ROOT %r = f32[2,5] subtract(%s, %b)\n");
  };
  expect_collectives(reassociated, text(""), {{"reduce-scatter", 1}});
  expect_untouched(reassociated, text(", frontend_attributes={tessera.barrier=\"true\"}"));
  expect_untouched([](const Program& p) { return reassociate_reductions(p, {.memory_bound = 119}); }, text(""));
}

// ---- hoist ---------------------------------------------------------------------------------------------------------

Program hoisted(const Program& program) { return hoist_collectives(program); }

// Four iterations over (i, u: f32[6,5], v: f32[2,5]). The body computes the next values %un and %vn.
Program loop(const std::string& body, int devices = 6, const std::string& limit = "4") {
  const std::string state = "(s32[], f32[6,5], f32[2,5])";
  return local_program(
      devices,
      "  %u0 = f32[6,5] parameter(0)\n  %v0 = f32[2,5] parameter(1)\n  %i0 = s32[] constant(0)\n  %init = " + state +
          " tuple(%i0, %u0, %v0)\n  ROOT %w = " + state + " while(%init), condition=%cond, body=%body\n",
      "%cond {\n  %s = " + state +
          " parameter(0)\n  %i = s32[] get-tuple-element(%s), index=0\n  %l = s32[] constant(" + limit +
          ")\n  ROOT %c = pred[] compare(%i, %l), direction=LT\n}\n%body {\n  %s = " + state +
          " parameter(0)\n  %i = s32[] get-tuple-element(%s), index=0\n  %one = s32[] constant(1)\n"
          "  %in = s32[] add(%i, %one)\n  %u = f32[6,5] get-tuple-element(%s), index=1\n"
          "  %v = f32[2,5] get-tuple-element(%s), index=2\n" +
          body + "  ROOT %r = " + state + " tuple(%in, %un, %vn)\n}\n");
}

// Returns the number of collectives in the body of the loop.
int in_body(const Program& program) {
  int count = 0;
  for (const auto& computation : program.computations)
    if (computation->name.starts_with("body"))
      for (const auto& instruction : computation->instructions)
        count += instruction.op->role == Role::kCollective ? 1 : 0;
  return count;
}

const std::string kGatherV = "  %g = f32[6,5] all-gather(%n), " + over(kRows, 1) + ", dimensions={0}";

TEST(HoistCollectives, LoopInvariantGathersMoveBeforeTheLoop) {
  const Program same = loop("  %n = f32[2,5] negate(%v)\n" + kGatherV +
                            "\n  %un = f32[6,5] multiply(%u, %g)\n  %vn = f32[2,5] get-tuple-element(%s), index=2\n");
  const Program after = expect_collectives(hoisted, same, {{"all-gather", 1}});
  EXPECT_EQ(in_body(after), 0);
  EXPECT_EQ(program_stats(after).total_collective_bytes * 4, program_stats(same).total_collective_bytes);
  // Changes in every iteration.
  expect_untouched(hoisted, loop("  %n = f32[2,5] negate(%v)\n" + kGatherV +
                                 "\n  %un = f32[6,5] multiply(%u, %g)\n  %vn = f32[2,5] sine(%n)\n"));
  expect_untouched(hoisted,
                   loop("  %n = f32[2,5] negate(%v)\n" + kGatherV +
                        ", frontend_attributes={tessera.recompute=\"true\"}\n  %un = f32[6,5] multiply(%u, %g)\n"
                        "  %vn = f32[2,5] get-tuple-element(%s), index=2\n"));
  expect_untouched([](const Program& p) { return hoist_collectives(p, {.memory_bound = 119}); }, same);
}

TEST(HoistCollectives, NothingMovesOutOfALoopThatNeverRuns) {
  expect_untouched(hoisted, loop(kGatherV.substr(0, kGatherV.find("%n")) + "%v), " + over(kRows, 1) +
                                     ", dimensions={0}\n  %un = f32[6,5] multiply(%u, %g)\n"
                                     "  %vn = f32[2,5] get-tuple-element(%s), index=2\n",
                                 6, "0"));
}

TEST(HoistCollectives, ASumIsReducedOnceAfterTheLoop) {
  const std::string x =
      "  %f = f32[] convert(%i)\n  %b = f32[6,5] broadcast(%f), dimensions={}\n"
      "  %id = u32[] partition-id()\n  %d = f32[] convert(%id)\n  %e = f32[6,5] broadcast(%d), dimensions={}\n"
      "  %x = f32[6,5] multiply(%b, %e)\n";
  const std::string reduce = "  %a = f32[6,5] all-reduce(%x), " + over(kRows, 1) + ", to_apply=%add\n";
  const std::string scatter =
      "  %t = f32[2,5] reduce-scatter(%x), " + over(kRows, 2) + ", dimensions={0}, to_apply=%add\n";
  const std::string keep = "  %vn = f32[2,5] get-tuple-element(%s), index=2\n";
  const Program plain = loop(x + reduce + "  %un = f32[6,5] add(%u, %a)\n" + keep);
  const Program after = expect_collectives(hoisted, plain, {{"all-reduce", 1}});
  EXPECT_EQ(in_body(after), 0);
  EXPECT_EQ(program_stats(after).total_collective_bytes * 4, program_stats(plain).total_collective_bytes);
  EXPECT_EQ(in_body(expect_collectives(
                hoisted, loop(x + reduce + scatter + "  %un = f32[6,5] add(%a, %u)\n  %vn = f32[2,5] add(%v, %t)\n"),
                {{"all-reduce", 1}, {"reduce-scatter", 1}})),
            0);
  // Other terms of the sum stay in the loop.
  EXPECT_EQ(in_body(expect_collectives(
                hoisted, loop(x + reduce + "  %o = f32[6,5] add(%u, %b)\n  %un = f32[6,5] add(%o, %a)\n" + keep),
                {{"all-reduce", 1}})),
            0);
}

TEST(HoistCollectives, MaximaAreReducedOnceAfterTheLoop) {
  const Program program = loop(
      "  %f = f32[] convert(%i)\n  %y = f32[] sine(%f)\n  %x = f32[6,5] broadcast(%y), dimensions={}\n"
      "  %m = f32[6,5] all-reduce(%x), " +
      over(kRows, 1) +
      ", to_apply=%max\n"
      "  %un = f32[6,5] maximum(%m, %u)\n  %vn = f32[2,5] get-tuple-element(%s), index=2\n");
  EXPECT_EQ(in_body(expect_collectives(hoisted, program, {{"all-reduce", 1}})), 0);
}

TEST(HoistCollectives, ASumThatIsReadOrScaledInTheLoopIsNotMoved) {
  const std::string reduce = "  %x = f32[6,5] broadcast(%f), dimensions={}\n  %a = f32[6,5] all-reduce(%x), " +
                             over(kRows, 1) + ", to_apply=%add\n";
  const std::string begin = "  %f = f32[] convert(%i)\n";
  const std::string keep = "  %vn = f32[2,5] get-tuple-element(%s), index=2\n";
  expect_untouched(hoisted,
                   loop(begin + reduce + "  %h = f32[6,5] multiply(%u, %x)\n  %un = f32[6,5] add(%h, %a)\n" + keep));
  expect_untouched(hoisted, loop(begin + reduce +
                                 "  %un = f32[6,5] add(%u, %a)\n  %vn = f32[2,5] slice(%un), slice={[0:2], [0:5]}\n"));
  expect_untouched(hoisted, loop(begin + reduce + "  %un = f32[6,5] maximum(%u, %a)\n" + keep));
}

// ---- share ---------------------------------------------------------------------------------------------------------

Program shared(const Program& program) { return share_gathers(program); }

TEST(ShareGathers, ReshapesAndTransposesOfOneValueAreGatheredOnce) {
  const Program program = local_program(
      6, "  %x = f32[2,5] parameter(0)\n  %a = f32[6,5] all-gather(%x), " + over(kRows, 1) +
             ", dimensions={0}\n  %t = f32[5,2] transpose(%x), dimensions={1,0}\n  %b = f32[5,6] all-gather(%t), " +
             over(kRows, 2) + ", dimensions={1}\n  %f = f32[10] reshape(%x)\n  %c = f32[30] all-gather(%f), " +
             over(kRows, 3) + ", dimensions={0}\n  %u = f32[5,2,1] reshape(%t)\n  %d = f32[5,2,3] all-gather(%u), " +
             over(kRows, 4) +
             ", dimensions={2}\n  ROOT %r = (f32[6,5], f32[5,6], f32[30], f32[5,2,3]) tuple(%a, %b, %c, %d)\n");
  // %d concatenates after each single element, so its blocks differ from the others.
  expect_collectives(shared, program, {{"all-gather", 2}});
  expect_untouched([](const Program& p) { return share_gathers(p, {.memory_bound = 119}); }, program);
}

TEST(ShareGathers, DoesNotShareAcrossRecomputationOrGroups) {
  const auto text = [](const std::string& marks, const std::string& groups) {
    return local_program(6, "  %x = f32[2,5] parameter(0)\n  %a = f32[6,5] all-gather(%x), " + over(kRows, 1) +
                                ", dimensions={0}\n  %t = f32[10] reshape(%x)\n  %b = f32[30] all-gather(%t), " +
                                over(groups, 2) + ", dimensions={0}" + marks +
                                "\n  ROOT %r = (f32[6,5], f32[30]) tuple(%a, %b)\n");
  };
  expect_collectives(shared, text("", kRows), {{"all-gather", 1}});
  expect_untouched(shared, text(", frontend_attributes={tessera.recompute=\"true\"}", kRows));
  expect_untouched(shared, text("", "{{2,1,0},{3,4,5}}"));
}

// ---- asynchronous --------------------------------------------------------------------------------------------------

TEST(MakeAsynchronous, PairsSpanTheComputationInBetween) {
  const Program program = local_program(
      6, "  %x = f32[6,6] parameter(0)\n  %a = f32[6,6] all-reduce(%x), " + over(kRows, 1) +
             ", to_apply=%add\n  %g = f32[18,6] all-gather(%x), " + over(kRows, 2) +
             ", dimensions={0}\n  %s = f32[2,6] reduce-scatter(%x), " + over(kRows, 3) +
             ", dimensions={0}, to_apply=%add\n  %p = (f32[6,6], f32[6,6]) collective-permute(%x, %x), channel_id=4, "
             "source_target_pairs={{0,1}}\n  %d = f32[6,6] dot(%x, %x), lhs_contracting_dims={1}, "
             "rhs_contracting_dims={0}\n"
             "  %l = f32[6,6] all-reduce(%d), " +
             over(kRows, 5) +
             ", to_apply=%add\n"
             "  ROOT %r = (f32[6,6], f32[18,6], f32[2,6], (f32[6,6], f32[6,6]), f32[6,6], f32[6,6]) tuple(%a, %g, %s, "
             "%p, %d, %l)\n");
  // An asynchronous reduce-scatter needs a separate computation. No computation follows the last all-reduce.
  const Program after = expect_collectives(make_asynchronous, program,
                                           {{"all-gather-start", 1},
                                            {"all-reduce", 1},
                                            {"all-reduce-start", 1},
                                            {"collective-permute-start", 1},
                                            {"reduce-scatter", 1}});
  EXPECT_EQ(collectives_of(make_synchronous(after)), collectives_of(make_synchronous(program)));
  EXPECT_EQ(program_stats(after).total_collective_bytes, program_stats(program).total_collective_bytes);
}

// ---- all of them ---------------------------------------------------------------------------------------------------

TEST(OptimizeCollectives, EachPassCanBeSkippedByName) {
  const Program program = sums("  %s = f32[6,5] add(%a, %b)\n  ROOT %r = (f32[6,5], f32[6,5]) tuple(%s, %c)\n");
  EXPECT_EQ(collectives_of(optimize_collectives(program)), (Counts{{"all-reduce", 1}}));
  EXPECT_EQ(collectives_of(optimize_collectives(program, {}, {"combine-collectives"})), (Counts{{"all-reduce", 2}}));
  EXPECT_EQ(collectives_of(optimize_collectives(program, {}, {"combine-collectives", "reassociate-reductions"})),
            (Counts{{"all-reduce", 3}}));
  EXPECT_THROW(optimize_collectives(program, {}, {"combine"}), Error);
}

}  // namespace
}  // namespace tessera::testing

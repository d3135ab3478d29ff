// SPDX-License-Identifier: Apache-2.0
#include "partitioner/collective_passes/collective_programs.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"

namespace tessera::testing {
namespace {

Program combined(const Program& program) { return combine_collectives(program); }
CollectivePass bounded(std::int64_t bytes) {
  return [bytes](const Program& program) { return combine_collectives(program, {.memory_bound = bytes}); };
}

std::string all_reduce(const std::string& name, const std::string& type, const std::string& operand, int channel,
                       const std::string& more = "") {
  return fmt::format("  %{} = {} all-reduce(%{}), {}, to_apply=%add{}\n", name, type, operand, over(kRows, channel),
                     more);
}

TEST(CombineCollectives, IndependentReductionsOfOneGroupBecomeOne) {
  const Program program = local_program(6, "  %x = f32[5,7] parameter(0)\n  %y = f32[3] parameter(1)\n" +
                                               all_reduce("a", "f32[5,7]", "x", 1) + "  %z = f32[3] negate(%y)\n" +
                                               all_reduce("b", "f32[3]", "z", 2) + all_reduce("c", "f32[3]", "y", 3) +
                                               "  ROOT %r = (f32[3], f32[5,7], f32[3]) tuple(%b, %a, %c)\n");
  const Program after = expect_collectives(combined, program, {{"all-reduce", 1}});
  EXPECT_EQ(program_stats(after).total_collective_bytes, program_stats(program).total_collective_bytes);
}

TEST(CombineCollectives, DependentCollectivesAreNotCombined) {
  expect_untouched(combined, local_program(6, "  %x = f32[5] parameter(0)\n" + all_reduce("a", "f32[5]", "x", 1) +
                                                  "  %z = f32[5] sine(%a)\n  %w = f32[5] multiply(%z, %x)\n" +
                                                  all_reduce("b", "f32[5]", "w", 2) +
                                                  "  ROOT %r = (f32[5], f32[5]) tuple(%a, %b)\n"));
}

TEST(CombineCollectives, DifferentGroupsReductionsOrTypesAreNotCombined) {
  expect_untouched(
      combined,
      local_program(6, "  %x = f32[5] parameter(0)\n  %i = s32[5] parameter(1)\n" + all_reduce("a", "f32[5]", "x", 1) +
                           "  %b = f32[5] all-reduce(%x), " + over(kColumns, 2) +
                           ", to_apply=%add\n  %c = f32[5] all-reduce(%x), " + over(kRows, 3) +
                           ", to_apply=%max\n  %d = s32[5] all-reduce(%i), " + over(kRows, 4) + ", to_apply=%addi\n" +
                           "  ROOT %r = (f32[5], f32[5], f32[5], s32[5]) tuple(%a, %b, %c, %d)\n"));
}

TEST(CombineCollectives, AConsumerInBetweenPreventsCombining) {
  // %c depends on %b, so these two cannot be combined; %a and %b can.
  const Program program =
      local_program(6, "  %x = f32[5] parameter(0)\n" + all_reduce("a", "f32[5]", "x", 1) +
                           "  %n = f32[5] cosine(%x)\n" + all_reduce("b", "f32[5]", "n", 2) +
                           "  %s = f32[5] multiply(%b, %x)\n" + all_reduce("c", "f32[5]", "s", 3) +
                           "  %t = f32[5] multiply(%a, %c)\n  ROOT %r = (f32[5], f32[5]) tuple(%t, %b)\n");
  expect_collectives(combined, program, {{"all-reduce", 2}});
}

TEST(CombineCollectives, ChainsAreCombinedLevelByLevel) {
  // Each value is scattered over rows and gathered over columns: one reduce-scatter and one all-gather remain.
  std::string body = "  %x = f32[6,5] parameter(0)\n  %y = f32[12] parameter(1)\n";
  for (const auto& [name, type, part, gathered, channel] :
       std::vector<std::tuple<std::string, std::string, std::string, std::string, int>>{
           {"x", "f32[6,5]", "f32[2,5]", "f32[4,5]", 1}, {"y", "f32[12]", "f32[4]", "f32[8]", 3}})
    body += fmt::format(
        "  %{0}s = {1} reduce-scatter(%{0}), {3}, dimensions={{0}}, to_apply=%add\n  %{0}n = {1} negate(%{0}s)\n"
        "  %{0}g = {2} all-gather(%{0}n), {4}, dimensions={{0}}\n",
        name, part, gathered, over(kRows, channel), over(kColumns, channel + 1));
  const Program program = local_program(6, body + "  ROOT %r = (f32[4,5], f32[8]) tuple(%xg, %yg)\n");
  expect_collectives(combined, program, {{"all-gather", 1}, {"reduce-scatter", 1}});
}

TEST(CombineCollectives, GathersMoveToTheFirstOne) {
  const auto gather = [](const std::string& name, const std::string& type, const std::string& operand, int channel) {
    return fmt::format("  %{} = {} all-gather(%{}), {}, dimensions={{0}}\n", name, type, operand, over(kRows, channel));
  };
  const Program program =
      local_program(6, "  %x = f32[2,3] parameter(0)\n  %v = f32[3,2] parameter(1)\n  %w = f32[3,1] parameter(2)\n" +
                           gather("g", "f32[6,3]", "x", 1) +
                           "  %s = f32[6,3] sine(%g)\n  %t = f32[2,3] transpose(%v), dimensions={1,0}\n" +
                           gather("h", "f32[6,3]", "t", 2) + "  %p = f32[6,3] multiply(%s, %h)\n" +
                           gather("k", "f32[9,1]", "w", 3) + "  ROOT %r = (f32[6,3], f32[9,1]) tuple(%p, %k)\n");
  expect_collectives(combined, program, {{"all-gather", 1}});
}

TEST(CombineCollectives, GathersOfValuesComputedInBetweenAreNotCombined) {
  const Program program =
      local_program(6, "  %x = f32[2,3] parameter(0)\n  %g = f32[6,3] all-gather(%x), " + over(kRows, 1) +
                           ", dimensions={0}\n  %s = f32[6,3] sine(%g)\n"
                           "  %c = f32[2,3] slice(%s), slice={[1:3], [0:3]}\n  %m = f32[2,3] multiply(%c, %c)\n"
                           "  %h = f32[6,3] all-gather(%m), " +
                           over(kRows, 2) + ", dimensions={0}\n  ROOT %r = (f32[6,3], f32[6,3]) tuple(%g, %h)\n");
  expect_untouched(combined, program);
}

TEST(CombineCollectives, PermutesWithTheSamePairsAreCombined) {
  const std::string pairs = "source_target_pairs={{0,3},{3,5},{5,1}}";
  const Program program = local_program(
      6,
      "  %x = f32[5] parameter(0)\n  %y = f32[2,2] parameter(1)\n  %a = f32[5] collective-permute(%x), channel_id=1, " +
          pairs + "\n  %b = f32[2,2] collective-permute(%y), channel_id=2, " + pairs +
          "\n  %c = f32[5] collective-permute(%x), channel_id=3, source_target_pairs={{0,1}}\n"
          "  ROOT %r = (f32[5], f32[2,2], f32[5]) tuple(%a, %b, %c)\n");
  expect_collectives(combined, program, {{"collective-permute", 2}});
}

TEST(CombineCollectives, ACombinedCollectiveRespectsTheMemoryBound) {
  std::string body = "  %x = f32[10] parameter(0)\n";
  for (int k = 0; k < 5; ++k) body += all_reduce(fmt::format("a{}", k), "f32[10]", "x", k + 1);
  const Program program = local_program(
      6, body + "  ROOT %r = (f32[10], f32[10], f32[10], f32[10], f32[10]) tuple(%a0, %a1, %a2, %a3, %a4)\n");
  expect_collectives(bounded(200), program, {{"all-reduce", 1}});
  expect_collectives(bounded(80), program, {{"all-reduce", 3}});
  expect_untouched(bounded(79), program);
}

TEST(CombineCollectives, DifferentUnitsMarksAndControlEdgesPreventCombining) {
  const auto marked = [](const std::string& key, const std::string& value) {
    return fmt::format(", frontend_attributes={{{}=\"{}\"}}", key, value);
  };
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{marked("tessera.unit", "h.0"), marked("tessera.unit", "h.1")},
                                                        {marked("tessera.recompute", "true"), ""},
                                                        {"", ", control-predecessors={a}"}})
    expect_untouched(combined,
                     local_program(6, "  %x = f32[5] parameter(0)\n" + all_reduce("a", "f32[5]", "x", 1, first) +
                                          all_reduce("b", "f32[5]", "x", 2, second) +
                                          "  ROOT %r = (f32[5], f32[5]) tuple(%a, %b)\n"));
}

TEST(CombineCollectives, EveryPartKeepsItsExplanation) {
  const auto reason = [](const std::string& text, int line) {
    return fmt::format(
        ", metadata={{source_file=\"train.cpp\" source_line={}}}, "
        "frontend_attributes={{tessera.reason=\"{}\",tessera.axes=\"m\"}}",
        line, text);
  };
  const Program after = combine_collectives(local_program(
      6, "  %x = f32[5,7] parameter(0)\n  %y = f32[3] parameter(1)\n" +
             all_reduce("a", "f32[5,7]", "x", 1, reason("of a", 4)) +
             all_reduce("b", "f32[3]", "y", 2, reason("of b", 9)) + "  ROOT %r = (f32[5,7], f32[3]) tuple(%a, %b)\n"));
  const auto notes = collective_notes(after);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[0].reason + " " + notes[0].source, "of a train.cpp:4");
  EXPECT_EQ(notes[1].reason + " " + notes[1].source, "of b train.cpp:9");
  EXPECT_EQ(notes[1].axes, "m");
  EXPECT_EQ(notes[0].collective, notes[1].collective);
  EXPECT_EQ(notes[0].bytes, 2 * 140 * 2 / 3);
  EXPECT_EQ(notes[1].bytes, 2 * 12 * 2 / 3);
  EXPECT_EQ(notes[0].bytes + notes[1].bytes, program_stats(after).total_collective_bytes);
}

TEST(CombineCollectives, GradientsOfASmallModelShareOneReduction) {
  // Data parallelism: a chain of layers with its gradients; all reductions are over data.
  const Program program = parse_program(R"(HloModule m, num_partitions=4
ENTRY %main {
  %x = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
  %w = f32[6,6] parameter(1), sharding={replicated}
  %v = f32[6,6] parameter(2), sharding={replicated}
  %h = f32[8,6] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[8,6] tanh(%h)
  %y = f32[8,6] dot(%t, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %dv = f32[6,6] dot(%t, %y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %dt = f32[8,6] dot(%y, %v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %dh = f32[8,6] multiply(%dt, %t)
  %dw = f32[6,6] dot(%x, %dh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %vn = f32[6,6] subtract(%v, %dv)
  %wn = f32[6,6] subtract(%w, %dw)
  ROOT %r = (f32[6,6], f32[6,6]) tuple(%wn, %vn), sharding={{replicated}, {replicated}}
})",
                                        op_table());
  EXPECT_EQ(collectives_of(partition(program).program), (Counts{{"all-reduce", 1}}));
  EXPECT_EQ(collectives_of(partition(program, {.skip_passes = {"combine-collectives"}}).program),
            (Counts{{"all-reduce", 2}}));
  EXPECT_TRUE(check_partition(program).passed);
}

}  // namespace
}  // namespace tessera::testing

// SPDX-License-Identifier: Apache-2.0
// The reported costs of a partitioned program.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

// A loop that reduces f32[3] over 4 devices in each iteration. `condition` is the loop condition, and `step` the
// increment of the counter.
Program loop(std::string_view condition, int step) {
  return parse_program(fmt::format(R"(HloModule m, num_partitions=4
%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}}
%more (s: (s32[], f32[3])) -> pred[] {{
  %s = (s32[], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %limit = s32[] constant(11)
  ROOT %go = pred[] compare({}
}}
%round (s: (s32[], f32[3])) -> (s32[], f32[3]) {{
  %s = (s32[], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[3] get-tuple-element(%s), index=1
  %step = s32[] constant({})
  %next = s32[] add(%step, %i)
  %y = f32[3] all-reduce(%x), replica_groups={{{{0,1,2,3}}}}, to_apply=%sum
  ROOT %out = (s32[], f32[3]) tuple(%next, %y)
}}
ENTRY %main (x: f32[3]) -> (s32[], f32[3]) {{
  %x = f32[3] parameter(0)
  %start = s32[] constant(1)
  %init = (s32[], f32[3]) tuple(%start, %x)
  ROOT %end = (s32[], f32[3]) while(%init), condition=%more, body=%round
}})",
                                   condition, step),
                       op_table());
}

TEST(Stats, CountALoopByItsTripCount) {
  constexpr std::int64_t kBytes = 18;  // of one all-reduce of f32[3]: 2 * 12 * 3/4
  const auto bytes = [](std::string_view condition, int step) {
    return program_stats(loop(condition, step)).total_collective_bytes;
  };
  EXPECT_EQ(bytes("%i, %limit), direction=LT", 1), 10 * kBytes);
  EXPECT_EQ(bytes("%i, %limit), direction=LE", 3), 4 * kBytes);
  EXPECT_EQ(bytes("%limit, %i), direction=GT", 1), 10 * kBytes);
  EXPECT_EQ(bytes("%limit, %i), direction=GE", 5), 3 * kBytes);
  EXPECT_EQ(bytes("%i, %limit), direction=NE", 1), kBytes);  // unknown trip count: once
}

// The lists, which have the element type of the rows, specify the rows to send. Only the rows are sent.
TEST(Stats, CountTheRowsOfARaggedExchangeOfIntegers) {
  const ProgramStats stats = program_stats(parse_program(R"(HloModule m, num_partitions=2
ENTRY e {
  rows = s32[8,3] parameter(0)
  room = s32[6,3] parameter(1)
  first = s32[2] parameter(2)
  count = s32[2] parameter(3)
  place = s32[2] parameter(4)
  received = s32[2] parameter(5)
  ROOT y = s32[6,3] ragged-all-to-all(rows, room, first, count, place, received), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true
})",
                                                         op_table()));
  EXPECT_EQ(stats.total_collective_bytes, 8 * 3 * 4 / 2);
}

TEST(Stats, SaturateAt64Bits) {
  const ProgramStats stats = program_stats(parse_program(R"(HloModule m, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
body {
  p = (s64[], f32[8,4]) parameter(0)
  i = s64[] get-tuple-element(p), index=0
  x = f32[8,4] get-tuple-element(p), index=1
  one = s64[] constant(1)
  n = s64[] add(i, one)
  r = f32[8,4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
  ROOT t = (s64[], f32[8,4]) tuple(n, r)
}
cond {
  p = (s64[], f32[8,4]) parameter(0)
  i = s64[] get-tuple-element(p), index=0
  m = s64[] constant(9223372036854775807)
  ROOT l = pred[] compare(i, m), direction=LT
}
ENTRY e {
  x = f32[8,4] parameter(0)
  zero = s64[] constant(0)
  q = (s64[], f32[8,4]) tuple(zero, x)
  w = (s64[], f32[8,4]) while(q), condition=cond, body=body
  ROOT y = f32[8,4] get-tuple-element(w), index=1
})",
                                                         op_table()));
  EXPECT_EQ(stats.total_collective_bytes, std::numeric_limits<std::int64_t>::max());
}

TEST(Explain, ARemedyNamesAValueOfACalledComputationAsAnnotateFindsIt) {
  const Program program = parse_program(R"(HloModule m, num_partitions=3
%inner (a: f32[6,9]) -> f32[6,9] {
  %a = f32[6,9] parameter(0)
  ROOT %t = f32[6,9] tanh(%a)
}
ENTRY %main (x: f32[6,9]) -> f32[6,9] {
  %x = f32[6,9] parameter(0), sharding={devices=[3,1]<=[3]}
  ROOT %c = f32[6,9] call(%x), to_apply=%inner
})",
                                        op_table());
  const auto notes = partition(program).notes;
  ASSERT_EQ(notes.size(), 1U);
  const std::string axis = program.meshes.front().axes().front().name;
  EXPECT_EQ(notes[0].remedy.text(), fmt::format("annotate the result %inner/t with {{{},-}}", axis));
  EXPECT_EQ(partition(annotate(program, program.meshes.front(), "inner/t", axis + ",-")).notes.size(), 0U);
}

TEST(Explain, AnOpThatOnlyPassesAPartialSumOnIsNotNamedAsTheSum) {
  const Program program = parse_program(R"(HloModule m, num_partitions=2
ENTRY %main (x: f32[6,4], w: f32[4,10]) -> f32[10,6] {
  %x = f32[6,4] parameter(0), sharding={devices=[1,2]<=[2]}
  %w = f32[4,10] parameter(1), sharding={devices=[2,1]<=[2]}
  %h = f32[6,10] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %turned = f32[10,6] transpose(%h), dimensions={1,0}
})",
                                        op_table());
  const auto notes = partition(program).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].remedy.text().starts_with("do not shard the dims that dot %h sums over: remove "))
      << notes[0].remedy.text();
}

// Returns the axes of an all-reduce in the input program.
std::string axes_of(const std::string& collective) {
  const Program program = parse_program(
      R"(HloModule m, num_partitions=6, frontend_attributes={tessera.meshes="{mesh = #sdy.mesh<[\"a\"=2, \"b\"=3]>}"}
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3] parameter(0)
  ROOT %y = f32[3] )" +
          collective + "\n}",
      op_table());
  return collective_notes(program).at(0).axes;
}

TEST(Explain, GroupsAlongAxesAreNamedByAxesAndOthersByDevices) {
  EXPECT_EQ(axes_of("all-reduce(%x), replica_groups={{0,1,2},{3,4,5}}, to_apply=%sum"), "b");
  EXPECT_EQ(axes_of("all-reduce(%x), replica_groups={{3,0},{1,4},{2,5}}, to_apply=%sum"), "a");
  EXPECT_EQ(axes_of("all-reduce(%x), replica_groups={}, to_apply=%sum"), "a+b");
  EXPECT_EQ(axes_of("all-reduce(%x), replica_groups={{0,1},{2,3},{4,5}}, to_apply=%sum"), "devices 0-5");
  EXPECT_EQ(axes_of("collective-permute(%x), source_target_pairs={{0,1},{1,2},{2,0}}"), "b");
  EXPECT_EQ(axes_of("collective-permute(%x), source_target_pairs={{0,4},{4,0},{1,1}}"), "devices 0,4");
}

// The sharding of a window's operand follows from that of its result, so the annotation of the operand has no
// influence.
TEST(Explain, TheRemedyNamesTheAnnotatedResultOfAWindow) {
  const Program program = parse_program(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[11,6] parameter(0)
  z = f32[] constant(3)
  ROOT r = f32[11,6] reduce-window(x,z), window={size=11x1 pad=10_0x0_0}, to_apply=sum
})",
                                        op_table(), {.num_partitions = 6});
  const Mesh mesh({{"a", 3}, {"b", 2}});
  const auto notes = [&](std::string_view of_result) {
    Program marked = program;
    marked.meshes = {mesh};
    marked = annotate(marked, mesh, "x", "a,b");
    return partition(annotate(marked, mesh, "r", std::string(of_result))).notes;
  };
  const auto reads_shards = [](const CollectiveNote& note) {
    return note.reason.find("is read across its shards") != std::string::npos;
  };
  const auto before = notes("b,a");
  const auto window = std::find_if(before.begin(), before.end(), reads_shards);
  ASSERT_NE(window, before.end());
  EXPECT_EQ(window->remedy.text(), "change the annotation of %r to {-,a}");
  const auto after = notes("-,a");
  EXPECT_TRUE(std::none_of(after.begin(), after.end(), reads_shards));
}

// A loop of seven iterations whose body sums f32[6,6] over the devices.
Program summing_loop() {
  return parse_program(R"(HloModule m, num_partitions=2
%more (s: (s32[], f32[6,6], f32[6,6])) -> pred[] {
  %s = (s32[], f32[6,6], f32[6,6]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %limit = s32[] constant(7)
  ROOT %go = pred[] compare(%i, %limit), direction=LT
}
%round (s: (s32[], f32[6,6], f32[6,6])) -> (s32[], f32[6,6], f32[6,6]) {
  %s = (s32[], f32[6,6], f32[6,6]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[6,6] get-tuple-element(%s), index=1
  %w = f32[6,6] get-tuple-element(%s), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %h = f32[6,6] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[6,6] tanh(%h)
  ROOT %out = (s32[], f32[6,6], f32[6,6]) tuple(%next, %t, %w)
}
ENTRY %main (x: f32[6,6], w: f32[6,6]) -> f32[6,6] {
  %x = f32[6,6] parameter(0)
  %w = f32[6,6] parameter(1), sharding={devices=[2,1]<=[2]}
  %zero = s32[] constant(0)
  %init = (s32[], f32[6,6], f32[6,6]) tuple(%zero, %x, %w)
  %end = (s32[], f32[6,6], f32[6,6]) while(%init), condition=%more, body=%round
  ROOT %y = f32[6,6] get-tuple-element(%end), index=1
})",
                       op_table());
}

TEST(Explain, ValuesOutsideTheEntryArePrefixedWithTheirComputation) {
  const auto notes = partition(summing_loop()).notes;
  const auto inside = std::find_if(notes.begin(), notes.end(), [](const auto& note) { return note.rounds > 1; });
  ASSERT_NE(inside, notes.end());
  for (const std::string& text : {inside->reason, inside->from, inside->to}) {
    EXPECT_NE(text.find("%round/"), std::string::npos) << text;
    for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1))
      EXPECT_EQ(text.substr(at, 7), "%round/") << text;
  }
}

TEST(Explain, NotesStateTheNumberOfIterationsInTheirBytes) {
  const auto notes = partition(summing_loop()).notes;
  const auto inside = std::find_if(notes.begin(), notes.end(), [](const auto& note) { return note.rounds > 1; });
  ASSERT_NE(inside, notes.end());
  EXPECT_EQ(inside->rounds, 7);
  EXPECT_TRUE(inside->rounds_known);
  const auto unknown = collective_notes(loop("%i, %limit), direction=NE", 1)).at(0);
  EXPECT_EQ(unknown.rounds, 1);
  EXPECT_FALSE(unknown.rounds_known);
  const ProgramStats stats = program_stats(loop("%i, %limit), direction=LT", 1));
  EXPECT_EQ(stats.collectives.at(0).count, 1);
  EXPECT_EQ(stats.collectives.at(0).runs, 10);
  EXPECT_TRUE(stats.collectives.at(0).runs_known);
  EXPECT_FALSE(program_stats(loop("%i, %limit), direction=NE", 1)).collectives.at(0).runs_known);
}

// Two loops with a collective of the same name each.
TEST(Explain, CollectivesOfOneNameAreDistinguishedByComputation) {
  const auto half = [](const std::string& name, int rounds) {
    return fmt::format(R"(
%more_{0} (s: (s32[], f32[6,6], f32[6,6])) -> pred[] {{
  %s = (s32[], f32[6,6], f32[6,6]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %limit = s32[] constant({1})
  ROOT %go = pred[] compare(%i, %limit), direction=LT
}}
%round_{0} (s: (s32[], f32[6,6], f32[6,6])) -> (s32[], f32[6,6], f32[6,6]) {{
  %s = (s32[], f32[6,6], f32[6,6]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[6,6] get-tuple-element(%s), index=1
  %w = f32[6,6] get-tuple-element(%s), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %h = f32[6,6] dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %t = f32[6,6] {2}(%h)
  ROOT %out = (s32[], f32[6,6], f32[6,6]) tuple(%next, %t, %w)
}})",
                       name, rounds, name == "a" ? "tanh" : "sine");
  };
  const Program program = parse_program("HloModule m, num_partitions=2" + half("a", 7) + half("b", 5) + R"(
ENTRY %main (x: f32[6,6], w: f32[6,6]) -> f32[6,6] {
  %x = f32[6,6] parameter(0)
  %w = f32[6,6] parameter(1), sharding={devices=[2,1]<=[2]}
  %zero = s32[] constant(0)
  %init = (s32[], f32[6,6], f32[6,6]) tuple(%zero, %x, %w)
  %middle = (s32[], f32[6,6], f32[6,6]) while(%init), condition=%more_a, body=%round_a
  %z = f32[6,6] get-tuple-element(%middle), index=1
  %again = (s32[], f32[6,6], f32[6,6]) tuple(%zero, %z, %w)
  %end = (s32[], f32[6,6], f32[6,6]) while(%again), condition=%more_b, body=%round_b
  ROOT %y = f32[6,6] get-tuple-element(%end), index=1
})",
                                        op_table());
  const Partitioned parts = partition(program);
  std::vector<const CollectiveNote*> inside;
  for (const CollectiveNote& note : parts.notes)
    if (note.rounds > 1) inside.push_back(&note);
  ASSERT_EQ(inside.size(), 2U);
  EXPECT_EQ(inside[0]->collective, inside[1]->collective);
  EXPECT_NE(shown_collective(*inside[0]), shown_collective(*inside[1]));
  EXPECT_EQ(inside[0]->rounds + inside[1]->rounds, 12);
  for (const CollectiveNote* note : inside) {
    const auto& all = parts.program.computations;
    const auto body = std::find_if(all.begin(), all.end(), [&](const auto& c) { return c->name == note->computation; });
    ASSERT_NE(body, all.end()) << note->computation;
    EXPECT_TRUE(std::any_of((*body)->instructions.begin(), (*body)->instructions.end(),
                            [&](const Instruction& i) { return i.name == note->collective; }));
  }
  try {
    (void)partition(program, {.limits = {.bytes = 0}});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    for (const CollectiveNote* note : inside)
      EXPECT_NE(std::string(error.what()).find(shown_collective(*note) + " over "), std::string::npos) << error.what();
  }
}

// Annotating %g only replaces its gather by one of %h or %x. The annotation of %x is the cause.
TEST(Explain, ATriedRemedyTracesAValueToTheParameterThatCausesIt) {
  Program program = parse_program(R"(HloModule m
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,32] parameter(1)
  h = f32[8,16] tanh(x)
  g = f32[8,16] negate(h)
  ROOT y = f32[8,32] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                                  op_table(), {.num_partitions = 2});
  const Mesh mesh({{"data", 2}});
  program.meshes = {mesh};
  const auto remedy_of = [&](const Program& annotated, bool tried) {
    const auto notes = partition(annotated, {.try_remedies = tried}).notes;
    return notes.size() == 1 ? notes[0].remedy.text() : fmt::format("{} collectives", notes.size());
  };
  const Program columns = annotate(program, mesh, "y", "-,data");
  const Program annotated = annotate(columns, mesh, "x", "data,-");
  EXPECT_EQ(remedy_of(annotated, false), "annotate %g with {-,-}");
  EXPECT_EQ(remedy_of(annotate(annotated, mesh, "g", "-,-"), false).find("change"), 0U);  // still a collective
  EXPECT_EQ(remedy_of(annotated, true), "change the annotation of %x to {-,-}");
  EXPECT_EQ(partition(annotate(columns, mesh, "x", "-,-")).notes.size(), 0U);
}

TEST(Explain, CollectivesOfTheTextCountAsRequested) {
  const Program program = parse_program(R"(HloModule m, num_partitions=3
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (x: f32[6,4]) -> f32[2,4] {
  %x = f32[6,4] parameter(0), sharding={devices=[3,1]<=[3]}
  %in = f32[6,4] custom-call(%x), custom_call_target="Sharding", sharding={devices=[3,1]<=[3]}
  %local = f32[2,4] custom-call(%in), custom_call_target="SPMDFullToShardShape", sharding={manual}
  %psum = f32[2,4] all-reduce(%local), channel_id=1, replica_groups={{0,1,2}}, use_global_device_ids=true, to_apply=%sum, sharding={manual}
  %out = f32[2,4] custom-call(%psum), custom_call_target="Sharding", sharding={manual}
  ROOT %y = f32[2,4] custom-call(%out), custom_call_target="SPMDShardToFullShape", sharding={replicated}
})",
                                        op_table());
  const auto notes = partition(program, {.limits = {.strict = true}}).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].asked);
}

}  // namespace
}  // namespace tessera

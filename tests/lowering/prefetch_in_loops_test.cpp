// SPDX-License-Identifier: Apache-2.0
// Gathers of the next round of a loop: the same values and bytes, started before the computation of a round.
#include <gtest/gtest.h>

#include "runtime/close.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ir/text.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/evaluate.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {
namespace {

using testing::close;
using testing::read;

std::string groups(int n) {
  return fmt::format("channel_id=1, replica_groups=[1,{0}]<=[{0}], use_global_device_ids=true", n);
}

struct Layers {
  int ranks = 2;
  int trips = 5;
  bool reversed = false;
  bool is_tuple = false;                    // one all-gather of two operands
  std::string notes = "";                   // of the loop
  std::string gathered = "%row";            // the operand of the all-gather: %row, or %late, which depends on x
  std::string limit = "%n), direction=LT";  // of the comparison `compare(%i, …`
};

// x = tanh(x · all-gather(row i of w)), as in FSDP. A second stack receives a reduce-scatter of each x.
std::string text_of(const Layers& layers) {
  const int n = layers.ranks;
  const int width = 3 * n;
  const std::string index =
      layers.reversed ? fmt::format("%last = s32[] constant({})\n  %at = s32[] subtract(%last, %i)", layers.trips - 1)
                      : "%at = s32[] add(%i, %zero)";
  const std::string gather =
      layers.is_tuple
          ? fmt::format(
                "%both = (f32[{0},{0}], f32[{0},{0}]) all-gather({1}, %half), {2}, dimensions={{0}}\n"
                "  %g0 = f32[{0},{0}] get-tuple-element(%both), index=0\n"
                "  %g1 = f32[{0},{0}] get-tuple-element(%both), index=1\n  %g = f32[{0},{0}] add(%g0, %g1)",
                width, layers.gathered, groups(n))
          : fmt::format("%g = f32[{0},{0}] all-gather({1}), {2}, dimensions={{0}}", width, layers.gathered, groups(n));
  return fmt::format(
      R"(HloModule layers, num_partitions={0}
%add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
%more {{
  %state = (s32[], f32[{0},{1}], f32[{2},3,{1}], f32[{2},1,{1}]) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %n = s32[] constant({2})
  ROOT %goes_on = pred[] compare(%i, {3}
}}
%body {{
  %state = (s32[], f32[{0},{1}], f32[{2},3,{1}], f32[{2},1,{1}]) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[{0},{1}] get-tuple-element(%state), index=1
  %w = f32[{2},3,{1}] get-tuple-element(%state), index=2
  %stack = f32[{2},1,{1}] get-tuple-element(%state), index=3
  %zero = s32[] constant(0)
  %one = s32[] constant(1)
  {4}
  %slice = f32[1,3,{1}] dynamic-slice(%w, %at, %zero, %zero), dynamic_slice_sizes={{1,3,{1}}}
  %row = f32[3,{1}] reshape(%slice)
  %half = f32[3,{1}] multiply(%row, %row)
  %x_row = f32[1,{1}] slice(%x), slice={{[0:1],[0:{1}]}}
  %x_vector = f32[{1}] reshape(%x_row)
  %x_rows = f32[3,{1}] broadcast(%x_vector), dimensions={{1}}
  %late = f32[3,{1}] multiply(%row, %x_rows)
  {5}
  %dot = f32[{0},{1}] dot(%x, %g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %y = f32[{0},{1}] tanh(%dot)
  %sum = f32[1,{1}] reduce-scatter(%y), {6}, dimensions={{0}}, to_apply=%add
  %sum3 = f32[1,1,{1}] reshape(%sum)
  %next_stack = f32[{2},1,{1}] dynamic-update-slice(%stack, %sum3, %at, %zero, %zero)
  %next = s32[] add(%i, %one)
  ROOT %out = (s32[], f32[{0},{1}], f32[{2},3,{1}], f32[{2},1,{1}]) tuple(%next, %y, %w, %next_stack)
}}
ENTRY %main {{
  %x0 = f32[{0},{1}] parameter(0)
  %w0 = f32[{2},3,{1}] parameter(1)
  %f0 = f32[] constant(0)
  %stack0 = f32[{2},1,{1}] broadcast(%f0), dimensions={{}}
  %start = s32[] constant(0)
  %init = (s32[], f32[{0},{1}], f32[{2},3,{1}], f32[{2},1,{1}]) tuple(%start, %x0, %w0, %stack0)
  %loop = (s32[], f32[{0},{1}], f32[{2},3,{1}], f32[{2},1,{1}]) while(%init), condition=%more, body=%body{7}
  %count = s32[] get-tuple-element(%loop), index=0
  %result = f32[{0},{1}] get-tuple-element(%loop), index=1
  %sums = f32[{2},1,{1}] get-tuple-element(%loop), index=3
  ROOT %results = (s32[], f32[{0},{1}], f32[{2},1,{1}]) tuple(%count, %result, %sums)
}})",
      n, width, layers.trips, layers.limit, index, gather, groups(n), layers.notes);
}

Program program_for(const Layers& layers) { return read(text_of(layers)); }

// The number of all-gathers that a computation contains.
int gathers_in(const Computation& computation) {
  return static_cast<int>(
      std::count_if(computation.instructions.begin(), computation.instructions.end(),
                    [](const Instruction& i) { return i.op->collective == CollectiveKind::kAllGather; }));
}

const Instruction& loop_of(const Program& program) {
  for (const Instruction& instruction : program.entry_computation().instructions)
    if (instruction.op->role == Role::kWhile) return instruction;
  throw Error("no loop");
}

std::vector<std::vector<Literal>> arguments_of(const Program& program, int ranks) {
  std::vector<std::vector<Literal>> out;
  for (int device = 0; device < ranks; ++device)
    out.push_back(testing::random_arguments(program, 100 * static_cast<unsigned>(device) + 1));
  return out;
}

void expect_same_values(const Program& a, const Program& b, int ranks) {
  const auto arguments = arguments_of(a, ranks);
  const auto expected = evaluate_lockstep(a, arguments);
  const auto got = evaluate_lockstep(b, arguments);
  for (int device = 0; device < ranks; ++device)
    EXPECT_TRUE(close(at(got, device), at(expected, device), 0)) << "device " << device;
}

TEST(PrefetchInLoops, KeepsValuesAndGathersOncePerRound) {
  for (const int ranks : {2, 3, 4})
    for (const int trips : {2, 3, 7})
      for (const bool reversed : {false, true})
        for (const bool is_tuple : {false, true}) {
          SCOPED_TRACE(fmt::format("{} ranks, {} rounds, {}{}", ranks, trips, reversed, is_tuple));
          const Program program = program_for({ranks, trips, reversed, is_tuple});
          const auto ahead = prefetch_in_loops(program, {});
          ASSERT_TRUE(ahead);
          verify(*ahead, "prefetched");
          expect_same_values(program, *ahead, ranks);
          EXPECT_EQ(known_trip_count(*ahead, ahead->entry_computation(), loop_of(*ahead)), trips - 1);
          EXPECT_EQ(gathers_in(ahead->entry_computation()), 1) << "that of the first round";
          EXPECT_EQ(gathers_in((*ahead)[loop_of(*ahead).called[1]]), 1);
          EXPECT_FALSE(prefetch_in_loops(*ahead, {})) << "a second time";
        }
}

TEST(PrefetchInLoops, KeepsBitsOnRanks) {
  for (const int ranks : {2, 3, 6}) {
    const Program program = program_for({.ranks = ranks, .trips = 4, .is_tuple = ranks == 3});
    const auto arguments = arguments_of(program, ranks);
    std::vector<Literal> in_turn(static_cast<std::size_t>(ranks));
    std::vector<Literal> ahead(static_cast<std::size_t>(ranks));
    for (const bool overlap : {false, true}) {
      options().set("TESSERA_OVERLAP", overlap ? "1" : "0");
      run_virtual_ranks(ranks, [&](ProcessGroup& world) {
        at(overlap ? ahead : in_turn, world.rank()) = run_program(program, world, at(arguments, world.rank()));
      });
    }
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_TRUE(close(at(ahead, rank), at(in_turn, rank), 0)) << "rank " << rank;
  }
  options().set("TESSERA_OVERLAP", "1");
}

TEST(PrefetchInLoops, DoesNotChangeOtherLoops) {
  const auto prefetched = [](const Layers& layers, const std::vector<int>& nodes = {}) {
    return prefetch_in_loops(program_for(layers), nodes).has_value();
  };
  EXPECT_TRUE(prefetched({}));
  EXPECT_FALSE(prefetched({.trips = 1})) << "there is no next round";
  EXPECT_FALSE(prefetched({}, {0, 0})) << "the devices are on one node";
  EXPECT_TRUE(prefetched({}, {0, 1}));
  EXPECT_FALSE(prefetched({.gathered = "%late"})) << "the operand is computed in the round";
  EXPECT_FALSE(prefetched({.limit = "%i), direction=LT"})) << "the number of rounds is unknown";
}

TEST(PrefetchInLoops, ReplacesTheNotedTripCount) {
  const Program program = program_for({.trips = 6, .notes = R"(, backend_config={"known_trip_count":{"n":"6"}})"});
  ASSERT_EQ(known_trip_count(program, program.entry_computation(), loop_of(program)), 6);
  const auto ahead = prefetch_in_loops(program, {});
  ASSERT_TRUE(ahead);
  EXPECT_EQ(known_trip_count(*ahead, ahead->entry_computation(), loop_of(*ahead)), 5);
}

ExecutionPlan plan_of(const Layers& layers, std::int64_t memory) {
  ExecutionOptions how;
  how.ranks = layers.ranks;
  how.schedule.overlap = true;
  how.schedule.overlap_memory = memory;
  return plan_execution(program_for(layers), how);
}

// In the body, the gather of the next round starts before the product and completes at the end, and so does the
// reduction that is stored in the stack.
TEST(PrefetchInLoops, OverlapsWithTheRound) {
  const ExecutionPlan plan = plan_of({.trips = 5}, 1 << 20);
  verify_schedule(plan.program, *plan.schedule);
  const Schedule* body = nullptr;
  for (const auto& called : plan.schedule->nested)
    for (const NestedSchedule& nested : called)
      if (nested.in_place) body = nested.schedule.get();
  ASSERT_NE(body, nullptr);
  const Computation& computation = plan.program[body->computation];
  int gather = -1;
  int reduction = -1;
  int product = -1;
  for (int t = 0; t < isize(body->steps); ++t) {
    const OpDef& op = *computation[at(body->steps, t).instructions.front()].op;
    if (op.collective == CollectiveKind::kAllGather) gather = t;
    if (op.collective == CollectiveKind::kReduceScatter) reduction = t;
    if (op.name == "dot") product = t;
  }
  ASSERT_GE(gather, 0);
  EXPECT_LT(gather, product);
  EXPECT_EQ(body->end_completes, std::vector<std::int32_t>{gather});
  EXPECT_EQ(body->steps.back().completes, std::vector<std::int32_t>{reduction});
}

TEST(PrefetchInLoops, KeepsTheMemoryLimitOfOverlap) {
  const ExecutionPlan plan = plan_of({.trips = 5}, 0);
  EXPECT_EQ(known_trip_count(plan.program, plan.program.entry_computation(), loop_of(plan.program)), 5);
}

}  // namespace
}  // namespace tessera

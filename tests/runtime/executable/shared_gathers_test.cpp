// SPDX-License-Identifier: Apache-2.0
// All-gathers whose operands the ranks of a node read in place: the results equal those of lockstep evaluation at any
// distance between ranks, while parameters and the arena are overwritten; and the verifier refuses plans that would
// allow races.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "runtime/close.h"
#include "tessera/base/options.h"
#include "tessera/collectives/node_memory.h"
#include "tessera/collectives/slow_group.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/evaluate.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

using testing::read;

constexpr int kRanks = 3;
// A shard has 3 pages. The parameter and %q, which is in the arena, are gathered. The parameter is donated and updated
// with the gathered values. %late reuses the memory of %q, and is gathered too.
const char* const kText = R"(HloModule shared, num_partitions=3, input_output_alias={ {0}: (0, {}, may-alias) }
%add (a: s32[], b: s32[]) -> s32[] {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %sum = s32[] add(%a, %b)
}
ENTRY %main (p: s32[1024,3]) -> (s32[1024,3], s32[3], s32[3]) {
  %p = s32[1024,3] parameter(0)
  %zero = s32[] constant(0)
  %all = s32[3072,3] all-gather(%p), channel_id=1, replica_groups=[1,3]<=[3], use_global_device_ids=true, dimensions={0}
  %first = s32[3] reduce(%all, %zero), dimensions={0}, to_apply=%add
  %f = s32[1024,3] broadcast(%first), dimensions={1}
  %q = s32[1024,3] multiply(%p, %f)
  %gathered = s32[3072,3] all-gather(%q), channel_id=2, replica_groups=[1,3]<=[3], use_global_device_ids=true, dimensions={0}
  %second = s32[3] reduce(%gathered, %zero), dimensions={0}, to_apply=%add
  %s = s32[1024,3] broadcast(%second), dimensions={1}
  %late = s32[1024,3] subtract(%s, %p)
  %again = s32[3072,3] all-gather(%late), channel_id=3, replica_groups=[1,3]<=[3], use_global_device_ids=true, dimensions={0}
  %third = s32[3] reduce(%again, %zero), dimensions={0}, to_apply=%add
  %t = s32[1024,3] broadcast(%third), dimensions={1}
  %new = s32[1024,3] add(%p, %t)
  ROOT %out = (s32[1024,3], s32[3], s32[3]) tuple(%new, %second, %third)
})";

ScheduleOptions on_one_node() {
  ScheduleOptions options;
  options.nodes = {0, 0, 0};
  return options;
}

std::vector<Literal> arguments_of(const Program& program) {
  std::vector<Literal> out;
  for (unsigned device = 0; device < kRanks; ++device)
    out.push_back(testing::random_arguments(program, device + 1).at(0));
  return out;
}

TEST(SharedGathers, ArePlannedOnOneNodeOnly) {
  const Program program = read(kText);
  const auto shared = make_schedule(program, on_one_node());
  EXPECT_EQ(shared->shared_gathers.size(), 3);
  EXPECT_NO_THROW(verify_schedule(program, *shared));
  EXPECT_LT(shared->arena_bytes, make_schedule(program)->arena_bytes) << "no gathered value is in the arena";
  auto apart = on_one_node();
  apart.nodes = {0, 0, 1};
  EXPECT_TRUE(make_schedule(program, apart)->shared_gathers.empty());
}

// The result of the first gather is in the memory of two ranks. The second gather reads it, and %y reuses the memory of
// the first operand.
TEST(SharedGathers, AGatherOfASharedResultReadsNothingThatIsOverwritten) {
  const Program program = read(R"(HloModule chain, num_partitions=4
ENTRY %main (p: s32[1024]) -> (s32[4096], s32[2048]) {
  %p = s32[1024] parameter(0)
  %x = s32[1024] negate(%p)
  %first = s32[2048] all-gather(%x), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, dimensions={0}
  %second = s32[4096] all-gather(%first), channel_id=2, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, dimensions={0}
  %q = s32[1024] not(%p)
  %y = s32[1024] multiply(%q, %q)
  %third = s32[2048] all-gather(%y), channel_id=3, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, dimensions={0}
  %a = s32[4096] negate(%second)
  %b = s32[2048] negate(%third)
  ROOT %out = (s32[4096], s32[2048]) tuple(%a, %b)
})");
  for (const std::vector<int>& nodes : {std::vector<int>{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 0, 1}}) {
    ScheduleOptions options;
    options.nodes = nodes;
    const auto plan = make_schedule(program, options);
    EXPECT_NO_THROW(verify_schedule(program, *plan)) << fmt::format("nodes {}", fmt::join(nodes, ","));
  }
}

TEST(SharedGathers, TheVerifierRequiresEveryWait) {
  const Program program = read(kText);
  const auto plan = make_schedule(program, on_one_node());
  int waits = 0;
  const auto expect_refused = [&](const Schedule& changed) {
    ++waits;
    EXPECT_THROW(verify_schedule(program, changed), InternalError) << "wait " << waits;
  };
  for (std::size_t t = 0; t < plan->steps.size(); ++t)
    for (std::size_t k = 0; k < plan->steps[t].awaits.size(); ++k) {
      Schedule changed = *plan;
      changed.steps[t].awaits.erase(changed.steps[t].awaits.begin() + static_cast<std::ptrdiff_t>(k));
      changed.end_awaits.clear();
      expect_refused(changed);
      changed = *plan;
      --changed.steps[t].awaits[k].step;
      changed.end_awaits.clear();
      expect_refused(changed);
    }
  EXPECT_GE(waits, 8) << "published and released, in the arena and in a parameter";
}

// Runs `steps` steps, each with the parameter of the previous one.
void expect_steps(int steps, const SlowLinks& links, int nodes, bool keeps_argument) {
  const Program program = read(kText);
  auto states = arguments_of(program);
  std::vector<std::vector<Literal>> expected;
  std::vector<std::vector<Literal>> got(kRanks);
  std::vector<Literal> start = states;
  for (int i = 0; i < steps; ++i) {
    std::vector<std::vector<Literal>> arguments;
    for (const Literal& state : states) arguments.push_back({state});
    expected.push_back(evaluate_lockstep(program, arguments));
    for (int r = 0; r < kRanks; ++r) at(states, r) = at(expected.back(), r).leaves().at(0);
  }
  run_virtual_ranks(kRanks,
                    [&](ProcessGroup& plain) {
                      const auto world = slow_down(std::shared_ptr<ProcessGroup>(&plain, [](ProcessGroup*) {}), links);
                      const auto executable = compile(program, *world, {});
                      std::vector<DeviceArray> state = to_device({at(start, world->rank())});
                      for (int i = 0; i < steps; ++i) {
                        const DeviceArray kept =
                            keeps_argument ? state[0] : DeviceArray();  // each step then writes to new memory
                        std::vector<DeviceArray> arguments;
                        arguments.push_back(std::move(state[0]));
                        state = executable->run(std::move(arguments));
                        std::vector<Literal> leaves;
                        for (const DeviceArray& array : state) leaves.push_back(array.to_literal());
                        at(got, world->rank()).push_back(Literal::tuple(std::move(leaves)));
                      }
                      clear_compile_cache();
                    },
                    {.node_of = [&](int rank) { return rank % nodes; }});
  for (int i = 0; i < steps; ++i)
    for (int r = 0; r < kRanks; ++r)
      ASSERT_TRUE(testing::close(at(at(got, r), i), at(at(expected, i), r), 1)) << "step " << i << " rank " << r;
}

TEST(SharedGathers, GiveRightResultsWhileMemoryIsOverwritten) { expect_steps(30, {}, 1, false); }
TEST(SharedGathers, GiveRightResultsWithLateRanks) {
  for (const unsigned seed : {1U, 2U, 3U}) expect_steps(12, {.jitter = 1e-3, .seed = seed}, 1, false);
}
TEST(SharedGathers, FollowParametersThatChangeTheirAddress) { expect_steps(8, {.jitter = 2e-4}, 1, true); }
// The exposed communication of a run is the time of its collectives, including their waits for peers, in metrics and in
// the profile.
TEST(SharedGathers, CountTheirWaitsAsCollectiveTime) {
  const Program program = read(kText);
  const std::vector<Literal> start = arguments_of(program);
  run_virtual_ranks(kRanks, [&](ProcessGroup& plain) {
    const auto world = slow_down(std::shared_ptr<ProcessGroup>(&plain, [](ProcessGroup*) {}), {.jitter = 2e-3});
    const auto executable = compile(program, *world, {});
    std::vector<DeviceArray> state = to_device({at(start, world->rank())});
    executable->set_profiling(true);
    std::int64_t exposed = 0;
    for (int i = 0; i < 5; ++i) {
      std::vector<DeviceArray> arguments;
      arguments.push_back(std::move(state[0]));
      state = executable->run(std::move(arguments));
      exposed += executable->last_run().communication_nanoseconds - executable->last_run().meeting_nanoseconds;
    }
    std::int64_t profiled = 0;
    for (const StepProfile& step : executable->profile())
      if (step.kind == "all-gather") profiled += step.nanoseconds;
    const auto counted = metrics().metric_data("CollectiveTime::all-gather");
    EXPECT_EQ(profiled, exposed);
    ASSERT_TRUE(counted);
    EXPECT_EQ(counted->accumulator, static_cast<double>(exposed));
    EXPECT_EQ(counted->total_samples, 5 * 3) << "one for each all-gather of a run";
    EXPECT_GT(exposed, 1'000'000) << "others come late by a millisecond on average, several times a run";
    clear_compile_cache();
  });
}

TEST(SharedGathers, AreCopiedBetweenNodes) { expect_steps(3, {}, 3, false); }

// Two units, each gathered before use, and a sum that is only read at the end. %tiny is packed with its neighbour.
const char* const kUnits = R"(HloModule units, num_partitions=4
%add (a: s32[], b: s32[]) -> s32[] {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %sum = s32[] add(%a, %b)
}
ENTRY %main (w1: s32[5,7], b1: s32[3], w2: s32[20,20], x: s32[20,7]) -> (s32[5,7], s32[20,20], s32[5,20], s32[12]) {
  %w1 = s32[5,7] parameter(0)
  %b1 = s32[3] parameter(1)
  %w2 = s32[20,20] parameter(2)
  %x = s32[20,7] parameter(3)
  %unit1 = (s32[20,7], s32[12]) all-gather(%w1, %b1), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={0}
  %g1 = s32[20,7] get-tuple-element(%unit1), index=0
  %tiny = s32[12] get-tuple-element(%unit1), index=1
  %y = s32[20,7] add(%g1, %x)
  %y2 = s32[20,7] multiply(%y, %y)
  %s = s32[5,7] reduce-scatter(%y2), channel_id=2, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={0}, to_apply=%add
  %unit2 = s32[80,20] all-gather(%w2), channel_id=3, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={0}
  %z = s32[20,20] slice(%unit2), slice={[40:60], [0:20]}
  %z2 = s32[20,20] multiply(%z, %z)
  %z3 = s32[20,20] all-reduce(%z2), channel_id=4, replica_groups=[2,2]<=[4], use_global_device_ids=true, to_apply=%add
  %r = s32[5,20] reduce-scatter(%z3), channel_id=5, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={0}, to_apply=%add
  %t2 = s32[12] negate(%tiny)
  ROOT %out = (s32[5,7], s32[20,20], s32[5,20], s32[12]) tuple(%s, %z3, %r, %t2)
})";

ScheduleOptions between_nodes() {
  ScheduleOptions options;
  options.nodes = {0, 0, 1, 1};
  options.overlap = true;
  return options;
}

TEST(Overlap, StartsEarlyAndWaitsLate) {
  const Program program = read(kUnits);
  const auto plan = make_schedule(program, between_nodes());
  EXPECT_NO_THROW(verify_schedule(program, *plan));
  const auto step_of = [&](std::string_view name) {
    for (std::size_t t = 0; t < plan->steps.size(); ++t)
      for (const Id id : plan->steps[t].instructions)
        if (program.entry_computation()[id].name == name) return static_cast<int>(t);
    ADD_FAILURE() << name;
    return -1;
  };
  EXPECT_LT(step_of("unit2"), step_of("y2")) << "the next unit is fetched while this one computes";
  EXPECT_TRUE(at(plan->steps, step_of("unit2")).overlapped);
  EXPECT_FALSE(at(plan->steps, step_of("z3")).overlapped) << "its groups are within nodes";
  EXPECT_EQ(plan->end_completes, (std::vector<std::int32_t>{step_of("s"), step_of("r")}));
}

// The second array of the first pair is written until that pair has finished, although nothing reads it.
TEST(Overlap, AnUnreadResultKeepsItsMemoryUntilTheCollectiveEnds) {
  const Program program = read(R"(HloModule m, num_partitions=2
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
ENTRY main {
  p = f32[51] parameter(0)
  q = f32[51] parameter(1)
  a = f32[51] sine(p)
  b = f32[51] cosine(q)
  c = f32[51] tanh(p)
  pair = (f32[102], f32[102]) all-gather(a, b), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, dimensions={0}
  first = f32[102] get-tuple-element(pair), index=0
  other = f32[102] all-gather(c), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, dimensions={0}
  zero = f32[] constant(0)
  s = f32[] reduce(first, zero), dimensions={0}, to_apply=add
  r = f32[] reduce(other, zero), dimensions={0}, to_apply=add
  ROOT out = (f32[], f32[]) tuple(s, r)
})");
  ScheduleOptions options;
  options.nodes = {0, 1};
  options.overlap = true;
  const auto plan = make_schedule(program, options);
  const auto& access = plan->access;
  const auto place = [&](std::string_view name, std::size_t leaf) {
    const Computation& entry = program.entry_computation();
    for (Id id = 0; id < entry.size(); ++id)
      if (entry[id].name == name) return plan->buffers[static_cast<std::size_t>(at(access, id).at(leaf).buffer)];
    ADD_FAILURE() << name;
    return plan->buffers.front();
  };
  const Buffer unread = place("pair", 1);
  const Buffer other = place("other", 0);
  EXPECT_TRUE(unread.offset + unread.bytes <= other.offset || other.offset + other.bytes <= unread.offset);
}

TEST(Overlap, AddsNoMoreMemoryThanAllowed) {
  const Program program = read(kUnits);
  ScheduleOptions options = between_nodes();
  const std::int64_t most = make_schedule(program, options)->arena_bytes;
  options.overlap = false;
  const std::int64_t least = make_schedule(program, options)->arena_bytes;
  ASSERT_LT(least, most);
  options.overlap = true;
  int overlapped_before = -1;
  for (const std::int64_t more : {std::int64_t{0}, (most - least) / 2, most - least}) {
    options.overlap_memory = more;
    const auto plan = make_schedule(program, options);
    EXPECT_NO_THROW(verify_schedule(program, *plan));
    EXPECT_LE(plan->arena_bytes, least + more);
    const auto count = static_cast<int>(
        std::count_if(plan->steps.begin(), plan->steps.end(), [](const Step& step) { return step.overlapped; }));
    EXPECT_GE(count, overlapped_before);
    overlapped_before = count;
  }
  EXPECT_EQ(overlapped_before, 4) << "all that leave a node, where memory is no matter";
}

TEST(Overlap, TheVerifierRequiresEveryWait) {
  const Program program = read(kUnits);
  const auto plan = make_schedule(program, between_nodes());
  int waits = 0;
  for (std::size_t t = 0; t < plan->steps.size(); ++t) {
    if (plan->steps[t].completes.empty()) continue;
    Schedule changed = *plan;
    const auto late = std::exchange(changed.steps[t].completes, {});
    changed.end_completes.insert(changed.end_completes.end(), late.begin(), late.end());
    EXPECT_THROW(verify_schedule(program, changed), InternalError) << "step " << t;
    ++waits;
  }
  EXPECT_GE(waits, 2);
}

TEST(Overlap, GivesTheSameResults) {
  const Program program = read(kUnits);
  std::vector<std::vector<Literal>> arguments;
  for (unsigned device = 0; device < 4; ++device) arguments.push_back(testing::random_arguments(program, device + 1));
  const auto expected = evaluate_lockstep(program, arguments);
  for (const int nodes : {1, 2, 3, 4}) {
    std::vector<Literal> got(4);
    run_virtual_ranks(4,
                      [&](ProcessGroup& plain) {
                        const SlowLinks links{.latency = 1e-3, .bytes_per_second = 1e7, .jitter = 1e-4};
                        const auto world =
                            slow_down(std::shared_ptr<ProcessGroup>(&plain, [](ProcessGroup*) {}), links);
                        at(got, world->rank()) = run_program(program, *world, at(arguments, world->rank()));
                        clear_compile_cache();
                      },
                      {.node_of = [&](int rank) { return rank * nodes / 4; }});
    for (int r = 0; r < 4; ++r)
      EXPECT_TRUE(testing::close(at(got, r), at(expected, r), 1)) << nodes << " nodes, rank " << r;
  }
}

// In a run, a rank computes, waits for collectives, or does both at a time.
TEST(Overlap, TheTimeOfComputationDuringTransfersIsMeasured) {
  const Program program = read(kUnits);
  for (const int nodes : {1, 4})
    run_virtual_ranks(4,
                      [&](ProcessGroup& plain) {
                        const SlowLinks links{.latency = 1e-3, .bytes_per_second = 1e7};
                        const auto world =
                            slow_down(std::shared_ptr<ProcessGroup>(&plain, [](ProcessGroup*) {}), links);
                        const auto executable = compile(program, *world, {});
                        std::vector<DeviceArray> arguments;
                        for (const Literal& value : testing::random_arguments(program, 1))
                          arguments.push_back(DeviceArray::from_literal(value));
                        (void)executable->run(std::move(arguments));
                        const RunStatistics& run = executable->last_run();
                        EXPECT_EQ(run.overlapped_nanoseconds > 0, nodes > 1) << nodes << " nodes";
                        EXPECT_LE(run.overlapped_nanoseconds + run.communication_nanoseconds, run.nanoseconds);
                        const auto counted = metrics().metric_data("OverlappedCommunicationTime");
                        ASSERT_EQ(counted.has_value(), nodes > 1);
                        EXPECT_EQ(counted ? counted->accumulator : 0, static_cast<double>(run.overlapped_nanoseconds));
                        clear_compile_cache();
                      },
                      {.node_of = [&](int rank) { return rank * nodes / 4; }});
}

TEST(NodeMemory, IsMappedSideBySideOnAllRanks) {
  run_virtual_ranks(4, [](ProcessGroup& world) {
    const auto memory = node_memory();
    ASSERT_NE(memory, nullptr);
    constexpr std::size_t kBytes = 2 * NodeMemory::kPage;
    std::byte* block = memory->take(kBytes);
    std::memset(block, world.rank() + 1, kBytes);
    const std::int64_t own = memory->offset_of(block);
    std::vector<std::int64_t> offsets(4);
    world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(offsets)));
    std::vector<NodePlace> places;
    for (const int rank : {2, 0, 3, 1}) places.push_back({rank, at(offsets, rank)});
    const auto view = memory->side_by_side(places, kBytes, NodeMemory::Use::kRead);
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_EQ(static_cast<int>(view.get()[k * kBytes + 4097]), places[k].world_rank + 1);
    world.barrier();
    block[4097] = std::byte{77};
    world.barrier();
    EXPECT_EQ(view.get()[4097], std::byte{77}) << "no copy";
    world.barrier();
    memory->give_back(block, kBytes);
    EXPECT_EQ(memory->take(kBytes), block) << "joined with the free memory behind it";
    EXPECT_EQ(block[5], std::byte{0}) << "its pages went back to the system";
    EXPECT_EQ(memory->offset_of(reinterpret_cast<const std::byte*>(&world)), -1);
  });
}

}  // namespace
}  // namespace tessera

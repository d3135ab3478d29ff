// SPDX-License-Identifier: Apache-2.0
// Per-device programs with collectives on virtual ranks: each rank's results must equal those of lockstep evaluation.
#include <gtest/gtest.h>

#include <mutex>

#include "runtime/close.h"
#include "support/gated_group.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/evaluate.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::close;
using testing::read;

// Runs on `count` virtual ranks with each backend and in lockstep, with different arguments on every device.
void expect_as_lockstep(const std::string& text, int count) {
  const Program program = read(text);
  std::vector<std::vector<Literal>> arguments;
  for (int device = 0; device < count; ++device)
    arguments.push_back(testing::random_arguments(program, 100 * static_cast<unsigned>(device) + 1));
  const auto expected = evaluate_lockstep(program, arguments);
  for (const std::string backend : {"CPU", "REFERENCE"}) {
    std::vector<Literal> got(static_cast<std::size_t>(count));
    run_virtual_ranks(count, [&](ProcessGroup& world) {
      options().set("PJRT_DEVICE", backend);
      at(got, world.rank()) = run_program(program, world, at(arguments, world.rank()));
    });
    for (int device = 0; device < count; ++device)
      EXPECT_TRUE(close(at(got, device), at(expected, device), 32)) << backend << ", device " << device;
  }
}

std::string header(int count) { return fmt::format("HloModule local, num_partitions={}\n", count); }
constexpr const char* kAdd = R"(%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
)";

TEST(CollectivesOnRanks, WorkAlongEveryDim) {
  for (const int n : {1, 2, 3, 4, 6}) {
    SCOPED_TRACE(n);
    const std::string all = fmt::format("channel_id=1, replica_groups=[1,{}]<=[{}], use_global_device_ids=true", n, n);
    expect_as_lockstep(header(n) + kAdd +
                           fmt::format(R"(ENTRY %main {{
  %x = f32[3,5] parameter(0)
  %y = f32[12,60] parameter(1)
  %g0 = f32[{0},5] all-gather(%x), {2}, dimensions={{0}}
  %g1 = f32[3,{1}] all-gather(%x), {2}, dimensions={{1}}
  %r0 = f32[{3},60] reduce-scatter(%y), {2}, dimensions={{0}}, to_apply=%add
  %r1 = f32[12,{4}] reduce-scatter(%y), {2}, dimensions={{1}}, to_apply=%add
  %a = f32[3,5] all-reduce(%x), {2}, to_apply=%add
  %t0 = f32[12,60] all-to-all(%y), {2}, dimensions={{0}}
  %t1 = f32[12,60] all-to-all(%y), {2}, dimensions={{1}}
  %p = u32[] partition-id()
  ROOT %out = (f32[{0},5], f32[3,{1}], f32[{3},60], f32[12,{4}], f32[3,5], f32[12,60], f32[12,60], u32[]) tuple(%g0, %g1, %r0, %r1, %a, %t0, %t1, %p)
}})",
                                       3 * n, 5 * n, all, 12 / n, 60 / n),
                       n);
  }
}

// Process groups do not implement these reductions: elementwise ones, one with a constant, and one with a call (which
// is evaluated element by element).
TEST(CollectivesOnRanks, ReduceByAnyComputation) {
  const std::string computations = R"(%xor { a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] xor(a, b) }
%lse {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] maximum(a, b)
  n = f32[] minimum(a, b)
  d = f32[] subtract(n, m)
  e = f32[] exponential(d)
  k = f32[] constant(1)
  f = f32[] add(e, k)
  l = f32[] log(f)
  ROOT c = f32[] add(m, l)
}
%first { p = pred[] parameter(0) a = f32[] parameter(1) b = f32[] parameter(2) ROOT s = f32[] select(p, a, b) }
%larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  p = pred[] compare(a, b), direction=GT
  ROOT c = f32[] call(p, a, b), to_apply=%first
}
)";
  for (const int n : {1, 2, 3, 6}) {
    SCOPED_TRACE(n);
    const std::string all = fmt::format("channel_id=1, replica_groups=[1,{}]<=[{}], use_global_device_ids=true", n, n);
    expect_as_lockstep(header(n) + computations +
                           fmt::format(R"(ENTRY %main {{
  %u = u32[5,3] parameter(0)
  %x = f32[4,6] parameter(1)
  %s = f32[] parameter(2)
  %r0 = u32[5,3] all-reduce(%u), {0}, to_apply=%xor
  %r1 = (f32[4,6], f32[]) all-reduce(%x, %s), {0}, to_apply=%lse
  %r2 = f32[4,{1}] reduce-scatter(%x), {0}, dimensions={{1}}, to_apply=%lse
  %r3 = f32[4,6] all-reduce(%x), {0}, to_apply=%larger
  ROOT %out = (u32[5,3], (f32[4,6], f32[]), f32[4,{1}], f32[4,6]) tuple(%r0, %r1, %r2, %r3)
}})",
                                       all, 6 / n),
                       n);
  }
}

TEST(CollectivesOnRanks, SupportSubgroupsInAnyOrderAndPermutes) {
  expect_as_lockstep(header(6) + kAdd + R"(ENTRY %main (x: f32[4]) -> (f32[12], f32[8], f32[4], f32[4], f32[4]) {
  %x = f32[4] parameter(0)
  %g = f32[12] all-gather(%x), channel_id=1, replica_groups={{4,0,2},{1,5,3}}, use_global_device_ids=true, dimensions={0}
  %h = f32[8] all-gather(%x), channel_id=2, replica_groups=[3,2]<=[2,3]T(1,0), use_global_device_ids=true, dimensions={0}
  %s = f32[4] all-reduce(%x), channel_id=3, replica_groups=[2,3]<=[6], use_global_device_ids=true, to_apply=%add
  %p = f32[4] collective-permute(%x), channel_id=4, source_target_pairs={{0,3},{3,5},{5,1}}
  %b = f32[4] collective-broadcast(%x), channel_id=5, replica_groups={{2,0},{5,4}}, use_global_device_ids=true
  ROOT %out = (f32[12], f32[8], f32[4], f32[4], f32[4]) tuple(%g, %h, %s, %p, %b)
})",
                     6);
}

// The lists contain negative entries, entries beyond the rows, and overlapping positions.
TEST(CollectivesOnRanks, RaggedAllToAll) {
  const auto text = [](int n, const std::string& groups, int members, const std::string& dtype = "f32") {
    return header(n) + fmt::format(R"(ENTRY %main {{
  %rows = {2}[6,5] parameter(0)
  %room = {2}[9,5] parameter(1)
  %first = s32[{1}] parameter(2)
  %count = s32[{1}] parameter(3)
  %place = {3}[{1}] parameter(4)
  %received = s32[{1}] parameter(5)
  ROOT %out = {2}[9,5] ragged-all-to-all(%rows, %room, %first, %count, %place, %received), channel_id=1, replica_groups={0}, use_global_device_ids=true
}})",
                                   groups, members, dtype, dtype == "s32" ? "s32" : "u64");
  };
  expect_as_lockstep(text(2, "{{0,1}}", 2, "s32"), 2);
  expect_as_lockstep(text(1, "{{0}}", 1), 1);
  expect_as_lockstep(text(3, "{{0,1,2}}", 3), 3);
  expect_as_lockstep(text(6, "{{4,0},{1,5},{3,2}}", 2), 6);
}

// Small and large operands of several sizes (packed or sent separately), also along inner dims.
std::string combined_text(int n) {
  const std::string all = fmt::format("channel_id=1, replica_groups=[1,{}]<=[{}], use_global_device_ids=true", n, n);
  return header(n) + kAdd +
         fmt::format(R"(ENTRY %main {{
  %x = f32[3,5] parameter(0)
  %y = f32[12,60] parameter(1)
  %e = f32[0,60] parameter(2)
  %big = f32[24,1000] parameter(3)
  %g = (f32[3,{0}], f32[12,{1}], f32[0,{1}], f32[24,{2}]) all-gather(%x, %y, %e, %big), {3}, dimensions={{1}}
  %r = (f32[{4},60], f32[{4},60], f32[{5},1000]) reduce-scatter(%y, %y, %big), {3}, dimensions={{0}}, to_apply=%add
  %q = (f32[12,{6}], f32[12,{6}]) reduce-scatter(%y, %y), {3}, dimensions={{1}}, to_apply=%add
  %a = (f32[3,5], f32[24,1000], f32[12,60]) all-reduce(%x, %big, %y), {3}, to_apply=%add
  %p = (f32[3,5], f32[12,60], f32[24,1000]) collective-permute(%x, %y, %big), channel_id=2, source_target_pairs={{{{0,{7}}},{{{7},0}}}}
  ROOT %out = ((f32[3,{0}], f32[12,{1}], f32[0,{1}], f32[24,{2}]), (f32[{4},60], f32[{4},60], f32[{5},1000]), (f32[12,{6}], f32[12,{6}]), (f32[3,5], f32[24,1000], f32[12,60]), (f32[3,5], f32[12,60], f32[24,1000])) tuple(%g, %r, %q, %a, %p)
}})",
                     5 * n, 60 * n, 1000 * n, all, 12 / n, 24 / n, 60 / n, n - 1);
}

TEST(CollectivesOnRanks, SeveralOperandsAreSentTogether) {
  for (const int n : {2, 3, 4}) {
    SCOPED_TRACE(n);
    expect_as_lockstep(combined_text(n), n);
  }
}

TEST(CollectivesOnRanks, SmallOperandsOfOneCollectiveShareAMessage) {
  const Program program = read(header(2) + kAdd + R"(ENTRY %main {
  %x = f32[3,5] parameter(0)
  %y = f32[12,60] parameter(1)
  %z = f32[7] parameter(2)
  ROOT %a = (f32[3,5], f32[12,60], f32[7]) all-reduce(%x, %y, %z), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add
})");
  run_virtual_ranks(2, [&](ProcessGroup& world) {
    const auto executable = compile(program, world);
    executable->run(to_device(testing::random_arguments(program, 1)));
    const std::int64_t first = executable->last_run().traffic.calls;
    EXPECT_EQ(first, 1);
    EXPECT_EQ(executable->last_run().traffic.all_reduce, 4 * (15 + 720 + 7));
  });
}

TEST(CollectivesOnRanks, RanksAgreeOnLoopsWithCollectives) {
  expect_as_lockstep(header(3) + kAdd + R"(%cond (s: (s32[], f32[6])) -> pred[] {
  %s = (s32[], f32[6]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(4)
  ROOT %more = pred[] compare(%i, %n), direction=LT
}
%body (t: (s32[], f32[6])) -> (s32[], f32[6]) {
  %t = (s32[], f32[6]) parameter(0)
  %j = s32[] get-tuple-element(%t), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%j, %one)
  %x = f32[6] get-tuple-element(%t), index=1
  %sum = f32[6] all-reduce(%x), channel_id=1, replica_groups={}, to_apply=%add
  %third = f32[] constant(0.25)
  %thirds = f32[6] broadcast(%third), dimensions={}
  %y = f32[6] multiply(%sum, %thirds)
  ROOT %r = (s32[], f32[6]) tuple(%next, %y)
}
ENTRY %main (x: f32[6]) -> (s32[], f32[6]) {
  %x = f32[6] parameter(0)
  %zero = s32[] constant(0)
  %init = (s32[], f32[6]) tuple(%zero, %x)
  ROOT %while = (s32[], f32[6]) while(%init), condition=%cond, body=%body
})",
                     3);
}

TEST(CollectivesOnRanks, CountTheBytesThatTheyTransfer) {
  const Program program = read(header(4) + kAdd + R"(ENTRY %main (x: f32[8,10]) -> (f32[32,10], f32[2,10], f32[8,10]) {
  %x = f32[8,10] parameter(0)
  %g = f32[32,10] all-gather(%x), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={0}
  %r = f32[2,10] reduce-scatter(%x), channel_id=2, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={0}, to_apply=%add
  %a = f32[8,10] all-reduce(%x), channel_id=3, replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=%add
  ROOT %out = (f32[32,10], f32[2,10], f32[8,10]) tuple(%g, %r, %a)
})");
  run_virtual_ranks(4, [&](ProcessGroup& world) {
    const auto executable = compile(program, world);
    executable->run(to_device(testing::random_arguments(program, 1)));
    const TrafficCounters& traffic = executable->last_run().traffic;
    EXPECT_EQ(traffic.all_gather, 3 * 320);     // (g-1)/g of the result
    EXPECT_EQ(traffic.reduce_scatter, 3 * 80);  // (g-1)/g of the operand
    EXPECT_EQ(traffic.all_reduce, 2 * 3 * 80);  // 2 (g-1)/g of the operand
    EXPECT_EQ(metrics().counter_value("CollectiveBytes::all-gather"), 3 * 320);
  });
}

TEST(CollectivesOnRanks, SamplesHaveTheTimeAtWhichTheCollectiveEnded) {
  const Program program = read(header(2) + R"(ENTRY %main (x: f32[4096]) -> f32[16384] {
  %x = f32[4096] parameter(0)
  %g = f32[8192] all-gather(%x), channel_id=1, replica_groups=[1,2]<=[2], use_global_device_ids=true, dimensions={0}
  %n = f32[8192] negate(%g)
  ROOT %h = f32[16384] all-gather(%n), channel_id=2, replica_groups=[1,2]<=[2], use_global_device_ids=true, dimensions={0}
})");
  run_virtual_ranks(2, [&](ProcessGroup& world) {
    run_program(program, world, {testing::random_literal(Type::array(DType::kF32, {4096}), 1)});
    const auto times = metrics().metric_data("CollectiveTime::all-gather");
    ASSERT_TRUE(times && times->samples.size() == 2);
    EXPECT_GE(static_cast<double>(times->samples[1].timestamp_ns - times->samples[0].timestamp_ns),
              times->samples[1].value);
  });
}

TEST(CollectivesOnRanks, DifferentProgramsOnRanksAreAnError) {
  const auto text = [](const char* op) {
    return header(2) +
           fmt::format(
               "ENTRY %main (x: f32[4]) -> f32[4] {{\n  %x = f32[4] parameter(0)\n  ROOT %y = f32[4] {}(%x)\n}}", op);
  };
  for (const std::string backend : {"CPU", "REFERENCE"}) try {
      run_virtual_ranks(2, [&](ProcessGroup& world) {
        options().set("PJRT_DEVICE", backend);
        const Program program = read(text(world.rank() == 0 ? "negate" : "abs"));
        run_program(program, world, {testing::random_literal(Type::array(DType::kF32, {4}), 1)});
      });
      FAIL() << "two programs ran as one";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("ranks run different programs"), std::string::npos) << error.what();
    }
}

// Ranks 0 and 1 run in one group, and 2 and 3 in another one, which runs more often. Then all ranks run together.
void run_unequally_often(int rounds_of_a_part) {
  const auto gather = [](int ranks) {
    return header(ranks) + fmt::format(R"(ENTRY %main (x: f32[4096]) -> f32[{0}] {{
  %x = f32[4096] parameter(0)
  %y = f32[4096] negate(%x)
  %g = f32[{0}] all-gather(%y), channel_id=1, replica_groups=[1,{1}]<=[{1}], use_global_device_ids=true, dimensions={{0}}
  ROOT %z = f32[{0}] negate(%g)
}})",
                                       4096 * ranks, ranks);
  };
  const Program of_two = read(gather(2));
  const Program of_four = read(gather(4));
  run_virtual_ranks(4, [&](ProcessGroup& world) {
    const auto check = [&](const Program& program, ProcessGroup& group, float first) {
      const float mine = first + static_cast<float>(group.rank());
      const Literal out = run_program(program, group, {Literal::from<float>({4096}, std::vector<float>(4096, mine))});
      for (int rank = 0; rank < group.size(); ++rank)
        for (const int k : {0, 4095})
          EXPECT_EQ(out.data<float>()[static_cast<std::size_t>(4096 * rank + k)], first + static_cast<float>(rank));
    };
    for (int round = 0; round < 3; ++round) {
      const auto part = world.split({{0, 1}, {2, 3}}, fmt::format("part {}", round / rounds_of_a_part));
      for (int i = 0; i < 1 + 2 * (world.rank() / 2); ++i) check(of_two, *part, static_cast<float>(10 * i));
      check(of_four, world, static_cast<float>(100 * round));
      check(of_four, world, static_cast<float>(100 * round + 50));
    }
  });
}

TEST(CollectivesOnRanks, PartsOfAWorldMayRunDifferentNumbersOfTimes) { run_unequally_often(3); }
TEST(CollectivesOnRanks, ExecutionsAreCountedForEachPart) { run_unequally_often(1); }

TEST(CollectivesOnRanks, AGroupAtTheAddressOfAFormerGroupIsDistinct) {
  const Program program = read(header(2) + R"(ENTRY %main (x: f32[2]) -> f32[4] {
  %x = f32[2] parameter(0)
  ROOT %g = f32[4] all-gather(%x), channel_id=1, replica_groups=[1,2]<=[2], use_global_device_ids=true, dimensions={0}
})");
  run_virtual_ranks(2, [&](ProcessGroup& world) {
    alignas(testing::GatedGroup) std::byte place[sizeof(testing::GatedGroup)];
    for (int round = 0; round < 3; ++round) {
      int gathers = 0;
      auto* group = new (place) testing::GatedGroup(world, [&gathers] { ++gathers; });
      const std::shared_ptr<Executable> executable = compile(program, *group);
      executable->run(to_device({Literal::from<float>({2}, {1, 2})}));
      EXPECT_GT(gathers, 0) << "of this group";
      EXPECT_EQ(metrics().counter_value("UncachedCompile"), round + 1);
      group->~GatedGroup();
    }
  });
}

}  // namespace
}  // namespace tessera

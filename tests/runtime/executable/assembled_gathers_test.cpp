// SPDX-License-Identifier: Apache-2.0
// All-gathers of parts that are not complete pages, assembled in slices in the memory of each rank of a node: a node
// has the result once; the results equal those of lockstep evaluation at any distance between ranks; the verifier
// refuses plans that would allow races; and if a rank cannot map its peers' slices, all ranks copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "runtime/executable/gather_programs.h"
#include "support/sanitizers.h"
#include "tessera/base/error.h"
#include "tessera/collectives/virtual_ranks.h"

namespace tessera {
namespace {

using testing::cases_here;
using testing::expect_lockstep;
using testing::gathered_in_turn;
using testing::looked_up;
using testing::on_one_node;
using testing::random_gathers;

int count_assembled(const Schedule& plan) {
  return static_cast<int>(std::count_if(plan.shared_gathers.begin(), plan.shared_gathers.end(),
                                        [](const SharedGather& gather) { return gather.assembled; }));
}

// GPT-2's 50,257 words on 2 ranks, with few columns.
constexpr int kWords = 25129;

TEST(AssembledGathers, ArePlannedOncePerNode) {
  for (const int ranks : {2, 3, 4}) {
    const Program program = gathered_in_turn(ranks, "s32", kWords, 3);
    const auto plan = make_schedule(program, on_one_node(ranks));
    EXPECT_NO_THROW(verify_schedule(program, *plan));
    EXPECT_EQ(count_assembled(*plan), 3);
    for (const SharedGather& gather : plan->shared_gathers) {
      const std::int64_t result_bytes = at(plan->buffers, gather.result).bytes;
      EXPECT_EQ(result_bytes, std::int64_t{4} * 3 * kWords * ranks);
      EXPECT_EQ(at(plan->buffers, gather.operand).bytes,
                ceil_div(result_bytes / ranks, kPageAlignment) * kPageAlignment);
    }
    auto apart = on_one_node(ranks);
    apart.nodes.back() = 1;
    const std::int64_t copied = make_schedule(program, apart)->arena_bytes;
    const std::int64_t shard = std::int64_t{4} * 3 * kWords;
    EXPECT_LE(plan->arena_bytes, copied - (ranks - 1) * shard + 2 * kPageAlignment) << ranks << " ranks";
  }
}

TEST(AssembledGathers, AreNotUsedForSmallResults) {
  EXPECT_EQ(count_assembled(*make_schedule(gathered_in_turn(2, "s32", 8191, 1), on_one_node(2))), 0);
  EXPECT_EQ(count_assembled(*make_schedule(gathered_in_turn(2, "s32", 8193, 1), on_one_node(2))), 3);
}

TEST(AssembledGathers, LookupsReadThemWithoutACopy) {
  const Program program = looked_up(2, kWords);
  const auto plan = make_schedule(program, on_one_node(2));
  EXPECT_NO_THROW(verify_schedule(program, *plan));
  const std::int64_t slice = at(plan->buffers, plan->shared_gathers.at(0).operand).bytes;
  EXPECT_EQ(plan->arena_bytes, slice) << "no second one without the last row";
}

TEST(AssembledGathers, TheVerifierRequiresEveryWaitForClaimsAndParts) {
  const Program program = gathered_in_turn(3, "s32", kWords, 1);
  const auto plan = make_schedule(program, on_one_node(3));
  int waits = 0;
  const auto expect_refused = [&](const Schedule& changed) {
    ++waits;
    EXPECT_THROW(verify_schedule(program, changed), InternalError) << "wait " << waits;
  };
  for (const SharedGather& gather : plan->shared_gathers)
    for (std::size_t t = 0; t < plan->steps.size(); ++t)
      for (std::size_t k = 0; k < plan->steps[t].awaits.size(); ++k) {
        const Await& await = plan->steps[t].awaits[k];
        if (await.gather != gather.id || (await.step != gather.claimed && await.step != gather.written)) continue;
        Schedule changed = *plan;
        changed.steps[t].awaits.erase(changed.steps[t].awaits.begin() + static_cast<std::ptrdiff_t>(k));
        expect_refused(changed);
        changed = *plan;
        --changed.steps[t].awaits[k].step;
        expect_refused(changed);
      }
  EXPECT_GE(waits, 8) << "three published, and claims of places used before";
}

TEST(AssembledGathers, TheVerifierRequiresClaimsAfterTheLastUse) {
  int refused = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Program program = random_gathers(seed, seed % 2 == 0);
    const auto plan = make_schedule(program, on_one_node(4));
    for (std::size_t k = 0; k < plan->shared_gathers.size(); ++k) {
      if (plan->shared_gathers[k].claimed < 0) continue;
      Schedule changed = *plan;
      changed.shared_gathers[k].claimed = -1;
      EXPECT_THROW(verify_schedule(program, changed), InternalError) << "seed " << seed << " gather " << k;
      ++refused;
    }
    for (std::size_t k = 0; k < plan->shared_gathers.size(); ++k) {
      if (!plan->shared_gathers[k].assembled) continue;
      Schedule changed = *plan;
      at(changed.buffers, plan->shared_gathers[k].operand).bytes -= kPageAlignment;
      EXPECT_THROW(verify_schedule(program, changed), InternalError) << "seed " << seed << " gather " << k;
    }
  }
  EXPECT_GT(refused, 20);
}

TEST(AssembledGathers, RandomPlansAreValid) {
  int assembled = 0;
  int direct = 0;
  for (int i = 0; i < cases_here(200); ++i) {
    const auto seed = static_cast<unsigned>(i);
    const Program program = random_gathers(seed, seed % 2 == 0);
    const auto plan = make_schedule(program, on_one_node(4));
    EXPECT_NO_THROW(verify_schedule(program, *plan)) << seed;
    assembled += count_assembled(*plan);
    direct += isize(plan->shared_gathers) - count_assembled(*plan);
    auto some = on_one_node(4);
    some.nodes = {0, 0, 1, 1};  // pairs are within a node; gathers over all ranks are overlapped
    some.overlap = true;
    EXPECT_NO_THROW(verify_schedule(program, *make_schedule(program, some))) << seed;
  }
  EXPECT_GT(assembled, cases_here(200));
  EXPECT_GT(direct, cases_here(100));
}

void run_on_ranks(int ranks, const Program& program, const SlowLinks& links, int steps, int nodes = 1) {
  run_virtual_ranks(ranks, [&](ProcessGroup& world) { expect_lockstep(program, world, links, steps); },
                    {.node_of = [&](int rank) { return rank * nodes / ranks; }});
}

TEST(AssembledGathers, SupportPartsOfAnySize) {
  for (const int ranks : {2, 3, 4}) {
    run_on_ranks(ranks, gathered_in_turn(ranks, "s32", kWords / ranks, 3), {}, 6);
    run_on_ranks(ranks, gathered_in_turn(ranks, "s8", 32801, 1), {.jitter = 2e-4}, 4);
    run_on_ranks(ranks, looked_up(ranks, kWords / ranks), {.jitter = 2e-4}, 4);
  }
}
TEST(AssembledGathers, GiveRightResultsWithLateRanks) {
  for (int i = 0; i < cases_here(3); ++i)
    run_on_ranks(3, gathered_in_turn(3, "s32", 9001, 1), {.jitter = 1e-3, .seed = static_cast<unsigned>(i) + 1}, 12);
}
TEST(AssembledGathers, GiveRightResultsInRandomPrograms) {
  for (int i = 0; i < cases_here(16); ++i) {
    const auto seed = static_cast<unsigned>(i);
    SCOPED_TRACE(seed);
    run_on_ranks(4, random_gathers(seed, seed % 3 == 0), {.jitter = seed % 2 == 0 ? 1e-4 : 1e-3, .seed = seed}, 5,
                 seed % 4 == 3 ? 2 : 1);
  }
}

TEST(AssembledGathers, AreCopiesOnAllRanksIfOneCannotMap) {
  const Program turns = gathered_in_turn(3, "s32", kWords, 1);
  run_virtual_ranks(3, [&](ProcessGroup& world) {
    std::optional<testing::NoMappings> refusing;
    if (world.rank() == 1) refusing.emplace();
    expect_lockstep(turns, world, {.jitter = 1e-4}, 4);
    refusing.reset();
    expect_lockstep(turns, world, {.jitter = 1e-4}, 2);
  });
}

}  // namespace
}  // namespace tessera

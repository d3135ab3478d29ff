// SPDX-License-Identifier: Apache-2.0
// All-gathers into slices in the memory of each process of a node, with processes that arrive late.
#include <gtest/gtest.h>

#include <optional>

#include "runtime/executable/gather_programs.h"
#include "support/mpi_main.h"

namespace tessera::testing {
namespace {

TEST(AssembledGathers, GiveRightResultsBetweenProcesses) {
  ProcessGroup& group = world().group();
  const int ranks = group.size();
  expect_lockstep(gathered_in_turn(ranks, "s32", 25129 / ranks, 3), group, {}, 10);
  for (const unsigned seed : {1U, 2U})
    expect_lockstep(gathered_in_turn(ranks, "s8", 32801, 1), group, {.jitter = 5e-4, .seed = seed}, 8);
}

TEST(AssembledGathers, GiveRightResultsInRandomPrograms) {
  if (world().group().size() != 4) GTEST_SKIP() << "programs for 4 ranks";
  for (unsigned seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE(seed);
    expect_lockstep(random_gathers(seed, seed % 3 == 0), world().group(), {.jitter = 5e-4, .seed = seed}, 5);
  }
}

TEST(AssembledGathers, AreCopiesIfOneProcessCannotMap) {
  std::optional<NoMappings> refusing;
  if (world().rank() == 0) refusing.emplace();
  const int ranks = world().size();
  expect_lockstep(gathered_in_turn(ranks, "s32", 25129, 1), world().group(), {.jitter = 1e-4}, 4);
}

}  // namespace
}  // namespace tessera::testing

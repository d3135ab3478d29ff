// SPDX-License-Identifier: Apache-2.0
// Compares the memory of a process that trains with the plan made before the first step.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "executable/memory.h"  // of src/runtime, for the arena
#include "support/mpi_main.h"
#include "tessera/frontend/execution/runtime.h"
#include "training/gpt2_training.h"

namespace tessera::testing {
namespace {

// Sanitizers keep freed memory, and have shadow memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHoldsMemoryOfItsOwn = true;
#else
constexpr bool kHoldsMemoryOfItsOwn = false;
#endif

// Returns a line of /proc/self/status in bytes.
std::int64_t status(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  ADD_FAILURE() << "no " << key << " in /proc/self/status";
  return 0;
}

void reset_high_water_mark() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  ASSERT_TRUE(file.good());
}

std::int64_t summed(std::int64_t value) {
  std::int64_t out = 0;
  world().group().all_reduce(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(&out, 1)),
                             DType::kS64, Reduction::kSum);
  return out;
}

TEST(ProcessMemory, GrowsByAtMostThePlanAndTheArenaEqualsThePlan) {
  const int ranks = world().size();
  join_world(world().shared_group());
  const std::int64_t private_before = status("VmRSS") - status("RssShmem");
  const std::int64_t shared_before = status("RssShmem");
  reset_high_water_mark();
  Training training({.mesh = fmt::format("fsdp={}", ranks),
                     .width = 256,
                     .heads = 8,
                     .layers = 4,
                     .vocabulary = 2048,
                     .time = 128,
                     .rows = 8});
  for (int i = 0; i < 3; ++i) training.step(i);

  const CompiledProgram& step = compiled_programs().back();
  const std::int64_t plan = step.memory.held_bytes();
  // The high-water mark counts a shared page on every rank that touched it.
  const std::int64_t shared = status("RssShmem") - shared_before;
  const std::int64_t growth = status("VmHWM") - status("RssShmem") - private_before;
  const std::int64_t all = summed(growth) + summed(shared) / ranks;
  const std::int64_t allowed = summed(plan) + summed(plan) / 20 + ranks * (std::int64_t{64} << 20);
  if (world().rank() == 0)
    fmt::print("{} ranks: plan {:.1f} MiB each, grown by {:.1f} MiB private and {:.1f} MiB shared\n", ranks,
               static_cast<double>(plan) / (1 << 20), static_cast<double>(growth) / (1 << 20),
               static_cast<double>(shared) / (1 << 20));
  if (!kHoldsMemoryOfItsOwn) {
    EXPECT_LE(all, allowed);
  }
  EXPECT_GE(all, summed(plan) / 2) << "the plan is far from what was used";

  std::int64_t largest = 0;
  for (const auto& program : compiled_programs())
    largest = std::max(largest, program.memory.arena + program.memory.workspace);
  ASSERT_NE(rank_memory().arena, nullptr);
  EXPECT_EQ(rank_memory().arena->bytes(), largest);
}

}  // namespace
}  // namespace tessera::testing

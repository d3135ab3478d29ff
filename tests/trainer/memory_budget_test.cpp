// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_budget.h"  // of src/trainer

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/files.h"

namespace tessera::trainer {
namespace {

constexpr const char* kSixBlocks =
    R"({"model_type": "gpt2", "n_embd": 24, "n_head": 3, "n_layer": 6, "n_positions": 64,
  "vocab_size": 40, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})";
constexpr std::int64_t kDevices = 2;

TrainingArguments six_blocks() {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tessera_budget_{}.json", getpid())).string();
  write_file(path, kSixBlocks);
  TrainingArguments out;
  out.config_name = path;
  out.mesh = "data=2";
  out.per_device_train_batch_size = 4;
  return out;
}

TEST(MemoryBudget, MoreRecomputedBlocksNeedLessMemoryAndMoreTime) {
  const auto curve = budget_curve(six_blocks(), kDevices);
  ASSERT_EQ(curve.size(), 5U);
  EXPECT_EQ(curve.front().blocks, 0);
  EXPECT_EQ(curve.back().blocks, 6);
  for (std::size_t i = 1; i < curve.size(); ++i) {
    EXPECT_GT(curve[i].blocks, curve[i - 1].blocks);
    EXPECT_LT(curve[i].peak_bytes, curve[i - 1].peak_bytes);
    EXPECT_GT(curve[i].seconds, curve[i - 1].seconds);
  }
}

TEST(MemoryBudget, TheFewestBlocksThatFitAreRecomputed) {
  const TrainingArguments arguments = six_blocks();
  const auto curve = budget_curve(arguments, kDevices);
  EXPECT_EQ(cheapest_point(arguments, kDevices, curve, curve.front().peak_bytes).blocks, 0);
  // Every number of blocks, planned by itself: a list of two points whose second is all blocks searches between them.
  const std::vector<BudgetPoint> ends = {curve.front(), curve.back()};
  BudgetPoint before = curve.front();
  for (std::int64_t bytes = curve.front().peak_bytes - 1; before.blocks < 6; bytes = before.peak_bytes - 1) {
    const BudgetPoint point = cheapest_point(arguments, kDevices, ends, bytes);
    EXPECT_EQ(point.blocks, before.blocks + 1);
    EXPECT_LE(point.peak_bytes, bytes);
    before = point;
  }
  EXPECT_EQ(before.peak_bytes, curve.back().peak_bytes);
}

TEST(MemoryBudget, TooLittleMemoryNamesTheLeastAndTheLargestValues) {
  TrainingArguments arguments = six_blocks();
  arguments.max_memory_per_rank = "10KB";
  const auto curve = budget_curve(arguments, kDevices);
  try {
    (void)cheapest_point(arguments, kDevices, curve, 10 << 10);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(
        text.find("--max_memory_per_rank 10KB: no recomputation of blocks makes the step fit; the least memory is"),
        text.npos)
        << text;
    EXPECT_NE(text.find(fmt::format("({} bytes)", curve.back().peak_bytes)), text.npos) << text;
    EXPECT_NE(text.find("the largest parts of the arena"), text.npos) << text;
  }
}

}  // namespace
}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_budget.h"  // of src/trainer

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "support/error_of.h"
#include "support/sanitizers.h"
#include "tessera/base/files.h"

namespace tessera::trainer {
namespace {

// The blocks of a model for a budget; a search under a sanitizer would take minutes with all of them.
const std::string kBlocks = fmt::format(R"({{"n_layer": {}, )", testing::kSanitizedShare == 1 ? 6 : 2) +
                            R"("model_type": "gpt2", "n_embd": 24, "n_head": 3, "n_positions": 64,
  "vocab_size": 40, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})";
constexpr std::int64_t kDevices = 2;

TrainingArguments blocks() {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tessera_budget_{}.json", getpid())).string();
  write_file(path, kBlocks);
  TrainingArguments out;
  out.config_name = path;
  out.mesh = "data=2";
  out.per_device_train_batch_size = 4;
  return out;
}

TEST(MemoryBudget, LessMemoryTakesMoreTime) {
  const auto curve = BudgetPlanner(blocks(), kDevices).curve();
  ASSERT_GE(curve.size(), 4U);
  EXPECT_EQ(curve.front().budget, 0);
  for (std::size_t i = 1; i < curve.size(); ++i) {
    EXPECT_LT(curve[i].held_bytes, curve[i - 1].held_bytes);
    EXPECT_GT(curve[i].seconds, curve.front().seconds);
  }
  EXPECT_LT(static_cast<double>(curve.back().held_bytes), 0.8 * static_cast<double>(curve.front().held_bytes));
}

TEST(MemoryBudget, EachBudgetOfTheCurveIsKept) {
  BudgetPlanner planner(blocks(), kDevices);
  const auto curve = planner.curve();
  EXPECT_EQ(planner.within(curve.front().held_bytes).budget, 0);
  for (const BudgetPoint& point : curve) {
    const BudgetPoint found = planner.within(point.held_bytes);
    EXPECT_LE(found.held_bytes, point.held_bytes);
    EXPECT_LE(found.seconds, 1.05 * point.seconds);
  }
}

TEST(MemoryBudget, TooLittleMemoryNamesTheLeastAndTheLargestValues) {
  TrainingArguments arguments = blocks();
  arguments.max_memory_per_rank = "10KB";
  BudgetPlanner planner(arguments, kDevices);
  const std::string text = testing::error_of([&] { (void)planner.within(10 << 10); });
  EXPECT_NE(text.find("--max_memory_per_rank 10KB: the step does not fit even if all possible values are recomputed; "
                      "the least memory is"),
            text.npos)
      << text;
  EXPECT_NE(text.find(" bytes):\n"), text.npos) << text;
  EXPECT_NE(text.find("the largest parts of the arena"), text.npos) << text;
}

}  // namespace
}  // namespace tessera::trainer

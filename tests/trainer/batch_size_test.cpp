// SPDX-License-Identifier: Apache-2.0
#include "plan/batch_size.h"  // of src/trainer

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "frontend/on_ranks.h"
#include "plan/evaluation_memory.h"
#include "plan/step_plan.h"
#include "run_task.h"
#include "support/sanitizers.h"
#include "support/temporary_folder.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/trainer/programs.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

// Most of the memory of this model are parameters and optimizer state, if rows are short.
std::string wide_blocks() {
  return fmt::format(R"({{"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": {}, "n_positions": 4,
  "vocab_size": 40, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}})",
                     testing::kSanitizedShare == 1 ? 6 : 3);
}
// Most of the memory of this one are activations, if batches are large.
constexpr const char* kLongRows = R"({"model_type": "gpt2", "n_embd": 24, "n_head": 3, "n_layer": 3, "n_positions": 64,
  "vocab_size": 40, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})";

TrainingArguments arguments_for(const TemporaryFolder& folder, const std::string& config) {
  TrainingArguments out;
  out.config_name = folder.write("config.json", config);
  out.auto_find_batch_size = true;
  return out;
}

BatchPlanner planner_of(const TrainingArguments& arguments, std::int64_t devices) {
  return {arguments, devices, ExecutionOptions::for_plan(static_cast<int>(devices))};
}

// The largest batch that fits, starting with one that does.
std::int64_t largest(const BatchPlanner& planner, std::int64_t fits, std::int64_t bytes) {
  std::int64_t step = 1;
  for (; planner.planned(fits + step).held_bytes <= bytes; step *= 2) fits += step;
  for (; step > 0; step /= 2)
    if (planner.planned(fits + step).held_bytes <= bytes) fits += step;
  return fits;
}

TEST(AutoFindBatchSize, TheLargestBatchGrowsWithTheNumberOfDevices) {
  const TemporaryFolder folder;
  TrainingArguments arguments = arguments_for(folder, wide_blocks());
  arguments.fsdp = "full_shard";
  std::int64_t bytes = 0;
  std::int64_t before = 0;
  for (const std::int64_t devices : {1, 2, 6}) {
    const BatchPlanner planner = planner_of(arguments, devices);
    if (bytes == 0) bytes = planner.planned(3).held_bytes;
    ASSERT_LE(planner.planned(before + 1).held_bytes, bytes) << devices << " devices, " << before + 1 << " rows";
    before = largest(planner, before + 1, bytes);
  }
  EXPECT_GT(before, 3);
}

// FSDP shards the parameters, and spatial sharding the images of a data shard.
TEST(AutoFindBatchSize, AResNetNeedsLessMemoryWithFsdpAndFitsLargerBatchesWithSpatialSharding) {
  TrainingArguments replicated = image_defaults();
  replicated.model = "tiny";
  replicated.fake_data = true;
  replicated.image_size = 64;
  replicated.mesh = "data=4";
  TrainingArguments sharded = replicated;
  sharded.mesh = "fsdp=4";
  sharded.fsdp = "full_shard";
  TrainingArguments spatial = replicated;
  spatial.mesh = "data=2,rows=2";
  spatial.spatial_sharding = "rows";
  const std::int64_t bytes = planner_of(replicated, 4).planned(6).held_bytes;
  const std::int64_t rows = largest(planner_of(replicated, 4), 6, bytes);
  EXPECT_LT(planner_of(sharded, 4).planned(6).held_bytes, bytes);
  EXPECT_GE(largest(planner_of(sharded, 4), rows, bytes), rows);
  EXPECT_GT(largest(planner_of(spatial, 4), rows, bytes), rows);
}

TEST(AutoFindBatchSize, HalvesTheRowsUntilThePlanFits) {
  const TemporaryFolder folder;
  const BatchPlanner planner = planner_of(arguments_for(folder, kLongRows), 2);
  const PlannedBatch first = planner.planned(13);
  const PlannedBatch half = planner.planned(6);
  ASSERT_LT(half.held_bytes, first.held_bytes);
  const BatchChoice all = planner.halved(first, first.held_bytes);
  EXPECT_EQ(all.chosen.rows, 13);
  EXPECT_EQ(all.larger.rows, 0);
  const BatchChoice fewer = planner.halved(first, first.held_bytes - 1);
  EXPECT_EQ(fewer.chosen.rows, 6);
  EXPECT_EQ(fewer.chosen.held_bytes, half.held_bytes);
  EXPECT_EQ(fewer.larger.rows, 13);
  EXPECT_EQ(fewer.larger.held_bytes, first.held_bytes);
  EXPECT_EQ(planner.halved(first, half.held_bytes - 1).chosen.rows, 3);
  EXPECT_EQ(planner.halved(first, 1).chosen.rows, 1) << "nothing fits";
}

TEST(AutoFindBatchSize, WithALimitOfMemoryValuesAreRecomputedBeforeTheBatchIsHalved) {
  const TemporaryFolder folder;
  TrainingArguments arguments = arguments_for(folder, kLongRows);
  const PlannedBatch kept = planner_of(arguments, 2).planned(8);
  const std::int64_t bytes = kept.held_bytes * 9 / 10;
  EXPECT_LT(planner_of(arguments, 2).halved(kept, bytes).chosen.rows, 8);
  arguments.max_memory_per_rank = fmt::format("{}B", bytes);
  const BatchPlanner recomputes = planner_of(arguments, 2);
  const BatchChoice choice = recomputes.halved(recomputes.planned(8), bytes);
  EXPECT_EQ(choice.chosen.rows, 8);
  EXPECT_LE(choice.chosen.held_bytes, bytes);
}

TEST(AutoFindBatchSize, ARowThatDoesNotFitIsAnErrorWithTheMemoryByUse) {
  const TemporaryFolder folder;
  TrainingArguments arguments = arguments_for(folder, kLongRows);
  const std::string text = error_of([&] { planner_of(arguments, 2).refuse(1, 10 << 10, "TESSERA_MEMORY_LIMIT=1MB"); });
  EXPECT_NE(text.find("--auto_find_batch_size: a step with 1 row for each data shard does not fit: the plan of a rank "
                      "needs "),
            text.npos)
      << text;
  EXPECT_NE(text.find(fmt::format("and it may have {} (TESSERA_MEMORY_LIMIT=1MB):\n", bytes_text(10 << 10))), text.npos)
      << text;
  EXPECT_NE(text.find("the largest parts of the arena"), text.npos) << text;
  arguments.max_memory_per_rank = "10KB";
  const std::string budget = error_of([&] { planner_of(arguments, 2).refuse(1, 10 << 10, ""); });
  EXPECT_TRUE(budget.starts_with(
      "--max_memory_per_rank 10KB: the step does not fit even if all possible values are recomputed"))
      << budget;
}

// ---- the batch of an evaluation -----------------------------------------------------------------------------------------

TrainingArguments arguments_with_evaluation(const TemporaryFolder& folder, std::int64_t rows) {
  TrainingArguments out = arguments_for(folder, kLongRows);
  out.auto_find_batch_size = false;
  out.per_device_eval_batch_size = rows;
  return out;
}

TEST(EvaluationMemory, GrowsWithTheBatch) {
  const TemporaryFolder folder;
  const auto memory = [&](std::int64_t rows) {
    TrainingArguments arguments = arguments_with_evaluation(folder, rows);
    arguments.dry_run = true;
    return as_planner([&] {
      plan_for_devices(2);
      const std::unique_ptr<Task> task = make_task(arguments);
      return evaluation_memory(arguments, *task);
    });
  };
  const EvaluationMemory small = memory(1);
  const EvaluationMemory large = memory(64);
  const std::int64_t hidden = 63 * 64 * 24 * 4;  // bytes of one value of the residual stream for 63 rows
  EXPECT_GT(large.program.arena, small.program.arena + hidden);
  EXPECT_EQ(large.batch, 64 * 64 * 2 * 4) << "tokens and labels of the rows of one of two ranks";
  EXPECT_EQ(large.program.arguments - small.program.arguments, large.batch - small.batch);
}

TEST(EvaluationMemory, OnlyALargerBatchThanThatOfTheTrainingIsCompared) {
  const TemporaryFolder folder;
  TrainingArguments larger = arguments_with_evaluation(folder, 9);
  EXPECT_TRUE(has_larger_evaluation(larger, 1));
  larger.do_eval = false;
  EXPECT_FALSE(has_larger_evaluation(larger, 1));
  larger.eval_strategy = "epoch";
  EXPECT_TRUE(has_larger_evaluation(larger, 1));
  TrainingArguments equal = arguments_with_evaluation(folder, 8);
  EXPECT_FALSE(has_larger_evaluation(equal, 1));
  equal.per_device_eval_batch_size.reset();  // then it is 8
  EXPECT_FALSE(has_larger_evaluation(equal, 3));
  equal.per_device_train_batch_size = 7;
  EXPECT_TRUE(has_larger_evaluation(equal, 3));
  equal.per_device_train_batch_size.reset();
  equal.global_batch_size = 16;  // rows of all data shards
  EXPECT_FALSE(has_larger_evaluation(equal, 2));
  EXPECT_TRUE(has_larger_evaluation(equal, 3));
}

}  // namespace
}  // namespace tessera::trainer

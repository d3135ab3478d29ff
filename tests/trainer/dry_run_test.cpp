// SPDX-License-Identifier: Apache-2.0
// The programs that a dry run plans are those that training executes, for every training program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/on_ranks.h"
#include "plan/step_plan.h"   // of src/trainer
#include "run/run_figures.h"  // of src/trainer
#include "run_task.h"         // of src/trainer
#include "support/sanitizers.h"
#include "support/temporary_folder.h"
#include "tessera/trainer/programs.h"
#include "tessera/trainer/trainer.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::TemporaryFolder;

constexpr int kRanks = 2;

TrainingArguments common(TrainingArguments arguments) {
  arguments.per_device_train_batch_size = 3;
  arguments.max_steps = 1;
  arguments.disable_tqdm = true;
  arguments.save_strategy = "no";
  return arguments;
}

TrainingArguments clm(const TemporaryFolder& folder) {
  TrainingArguments out = common({});
  out.config_name = folder.write("gpt2.json", R"({"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2,
    "n_positions": 8, "vocab_size": 256, "resid_pdrop": 0.1, "embd_pdrop": 0.0, "attn_pdrop": 0.0})");
  out.train_file = folder.write("text.txt", std::string(400, 'a'));
  return out;
}

TrainingArguments with_bert(TrainingArguments arguments, const TemporaryFolder& folder) {
  TrainingArguments out = common(std::move(arguments));
  out.config_name = folder.write("bert.json", R"({"model_type": "bert", "vocab_size": 261, "hidden_size": 12,
    "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 16})");
  out.max_seq_length = 16;
  return out;
}

TrainingArguments mlm(const TemporaryFolder& folder) {
  TrainingArguments out = with_bert(mlm_defaults(), folder);
  std::string text;
  for (int i = 0; i < 40; ++i) text += fmt::format("line {} of a text\n", i);
  out.train_file = folder.write("lines.txt", text);
  return out;
}

TrainingArguments classification(const TemporaryFolder& folder) {
  TrainingArguments out = with_bert(classification_defaults(), folder);
  std::string table = "sentence\tlabel\n";
  for (int i = 0; i < 24; ++i) table += fmt::format("text {}\tlabel {}\n", i, i % 3);
  out.train_file = folder.write("train.tsv", table);
  out.pad_to_max_length = true;
  return out;
}

TrainingArguments images(const TemporaryFolder& /*folder*/) {
  TrainingArguments out = common(image_defaults());
  out.model = "tiny";
  out.fake_data = true;
  out.fake_data_samples = 24;
  out.fake_data_classes = 5;
  out.image_size = 9;
  return out;
}

const std::vector<std::pair<const char*, std::function<TrainingArguments(const TemporaryFolder&)>>>& programs() {
  static const std::vector<std::pair<const char*, std::function<TrainingArguments(const TemporaryFolder&)>>> kAll = {
      {"run_clm", clm}, {"run_mlm", mlm}, {"run_classification", classification}, {"train_imagenet", images}};
  return kAll;
}

ExecutableMemory planned(TrainingArguments arguments) {
  arguments.dry_run = true;
  return as_planner([&] {
    plan_for_devices(kRanks);
    const auto task = make_task(arguments);
    return largest_memory(plan_training_step(arguments, *task), ExecutionOptions::for_plan(kRanks));
  });
}

ExecutableMemory executed(const TrainingArguments& arguments) {
  ExecutableMemory out;
  on_ranks(kRanks, [&](int rank) {
    const auto task = make_task(arguments);
    Trainer(arguments, *task).train();
    if (rank == 0) out = most_memory_of_steps(0);
  });
  return out;
}

TEST(DryRun, PlansTheProgramsThatTrain) {
  const TemporaryFolder folder;
  using Case = std::pair<std::int64_t, const char*>;  // micro-batches, --fsdp
  const std::vector<Case> cases = testing::cases_of<Case>({{1, "full_shard"}, {3, ""}});
  for (const auto& [name, make] : testing::cases_of(programs()))
    for (const auto& [accumulation, fsdp] : cases) {
      TrainingArguments arguments = make(folder);
      arguments.gradient_accumulation_steps = accumulation;
      arguments.fsdp = fsdp;
      const std::string what = fmt::format("{}, {} micro-batches, --fsdp \"{}\"", name, accumulation, fsdp);
      const ExecutableMemory plan = planned(arguments);
      const ExecutableMemory run = executed(arguments);
      EXPECT_GT(plan.arena, 0) << what;
      EXPECT_EQ(plan.arguments, run.arguments) << what;
      EXPECT_EQ(plan.arena, run.arena) << what;
      EXPECT_EQ(plan.held_bytes(), run.held_bytes()) << what;
    }
}

std::string text_of(const data::Batch& batch) {
  std::string out = fmt::format("{} rows:", batch.rows);
  for (const data::Batch::Field& field : batch.fields)
    out += fmt::format(" {} {} {}", field.name, field.type.str(), field.spec.str());
  return out;
}

TEST(DryRun, PlannedBatchesHaveTheArraysOfTheLoader) {
  const TemporaryFolder folder;
  for (const auto& [name, make] : programs()) {
    const TrainingArguments arguments = make(folder);
    on_ranks(kRanks, [&](int /*rank*/) {
      const auto task = make_task(arguments);
      const data::Batch read = task->loader().next_batch();
      EXPECT_EQ(text_of(task->planned_batch(read.rows)), text_of(read)) << arguments.config_name << arguments.model;
    });
  }
}

// Only the number of labels comes from the data.
TEST(DryRun, NeedsNoData) {
  const TemporaryFolder folder;
  for (const auto& [name, make] : programs()) {
    TrainingArguments arguments = make(folder);
    const ExecutableMemory with_data = planned(arguments);
    arguments.train_file.clear();
    arguments.fake_data = false;
    arguments.dry_run = true;
    arguments.check();
    const ExecutableMemory without = planned(arguments);
    if (arguments.program == TrainingProgram::kClassification)
      EXPECT_LT(without.arguments, with_data.arguments) << "two labels instead of three";
    else
      EXPECT_EQ(without.held_bytes(), with_data.held_bytes()) << name;
  }
}

}  // namespace
}  // namespace tessera::trainer

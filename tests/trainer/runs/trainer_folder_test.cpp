// SPDX-License-Identifier: Apache-2.0
// The output folder of a Trainer that a C++ program creates has the same rules as that of a training program.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "frontend/on_ranks.h"
#include "run/run_saver.h"
#include "support/temporary_folder.h"
#include "tessera/data/tensor_dataset.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/trainer.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

class FourTokens final : public data::Source {
 public:
  [[nodiscard]] std::int64_t size() const override { return 8; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override {
    const std::vector<std::int32_t> ids = {static_cast<std::int32_t>(i % 5), 1, 2, 3};
    return {{"input_ids", Literal::from<std::int32_t>({4}, ids)}, {"labels", Literal::from<std::int32_t>({4}, ids)}};
  }
};

nn::GPT2Config smallest_gpt2() {
  nn::GPT2Config out;
  out.vocab_size = 5;
  out.n_positions = 4;
  out.n_embd = 4;
  out.n_layer = 1;
  out.n_head = 1;
  return out;
}

TrainingArguments run_in(const std::string& folder, std::int64_t steps) {
  TrainingArguments out;
  out.output_dir = folder;
  out.max_steps = steps;
  out.save_strategy = "steps";
  out.save_steps = 2;
  out.global_batch_size = 4;
  out.disable_tqdm = true;
  return out;
}

// Trains `times` times. Returns the text of an error.
std::string train_in_folder(const TrainingArguments& arguments, int times = 1) {
  return error_of([&] {
    nn::GPT2LMHeadModel model(smallest_gpt2());
    Trainer trainer({.model = model, .args = arguments, .train_dataset = std::make_shared<FourTokens>()});
    for (int i = 0; i < times; ++i) (void)trainer.train();
  });
}

std::set<std::string> checkpoint_names(const std::string& folder) {
  std::set<std::string> out;
  for (const auto& [step, path] : checkpoints_in(folder)) out.insert(std::filesystem::path(path).filename().string());
  return out;
}

TEST(TrainerFolder, ARunIsOnlyReplacedIfAskedAndTheNewCheckpointsAreKept) {
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  on_ranks(2, [&](int) { EXPECT_EQ(train_in_folder(run_in(out, 6)), "no error"); });
  EXPECT_EQ(checkpoint_names(out), (std::set<std::string>{"checkpoint-2", "checkpoint-4", "checkpoint-6"}));
  on_ranks(2, [&](int) {
    EXPECT_EQ(train_in_folder(run_in(out, 4)).find(out + " already contains a run; give --resume_from_checkpoint"), 0U);
  });
  on_ranks(2, [&](int) {
    TrainingArguments arguments = run_in(out, 4);
    arguments.overwrite_output_dir = true;
    arguments.save_total_limit = 1;
    EXPECT_EQ(train_in_folder(arguments), "no error");
  });
  EXPECT_EQ(checkpoint_names(out), (std::set<std::string>{"checkpoint-4"}));
  EXPECT_FALSE(holds_replaced_run(out));
}

TEST(TrainerFolder, ATrainerMayTrainAgain) {
  const FreshRank rank;
  const TemporaryFolder folder;
  EXPECT_EQ(train_in_folder(run_in(folder.file("out"), 2), 2), "no error");
}

TEST(TrainerFolder, AResumeWithoutACheckpointLeavesNothing) {
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  on_ranks(2, [&](int) {
    TrainingArguments arguments = run_in(out, 2);
    arguments.resume_from_checkpoint = "true";
    EXPECT_EQ(train_in_folder(arguments), "--resume_from_checkpoint true: " + out + " contains no checkpoint");
  });
  EXPECT_FALSE(std::filesystem::exists(out));
}

// As on a full disk.
TEST(RunSaver, RestoresTheReplacedRunIfItsCheckpointCannotGetItsName) {
  const FreshRank rank;
  const TemporaryFolder folder;
  (void)folder.write("checkpoint-8/manifest.json", "old");
  (void)folder.write("checkpoint-2", "a file, which no folder replaces");
  TrainingArguments arguments;
  arguments.output_dir = folder.path();
  RunSaver saver(arguments, true);
  saver.set_replaced({folder.file("checkpoint-8")});
  ::testing::internal::CaptureStderr();
  const auto save = [&](std::int64_t step) {
    saver.begin(step, {.states = {}, .documents = {{"config", JsonObject()}}}, "");
    saver.finish();
  };
  save(2);
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warnings.find("restored 1 checkpoint of the run in "), std::string::npos) << warnings;
  EXPECT_EQ(checkpoint_names(folder.path()), (std::set<std::string>{"checkpoint-8"}));
  save(4);
  EXPECT_EQ(checkpoint_names(folder.path()), (std::set<std::string>{"checkpoint-4"}));
}

}  // namespace
}  // namespace tessera::trainer

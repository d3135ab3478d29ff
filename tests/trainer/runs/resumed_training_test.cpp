// SPDX-License-Identifier: Apache-2.0
// What a training must leave behind to be continued: random numbers, epochs, evaluations, complete checkpoints.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/frontend/execution/step.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/trainer.h"
#include "trainer/runs/small_run.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

nn::GPT2Config config_with_dropout() {
  nn::GPT2Config config = tiny_config();
  config.n_layer = 1;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.2;
  return config;
}

// Ten samples, so that an epoch has two updates.
TrainingArguments short_run(std::int64_t steps, const std::string& folder = "") {
  TrainingArguments out = quiet(steps);
  out.save_strategy = folder.empty() ? "no" : "steps";
  out.output_dir = folder;
  return out;
}

struct RunParts {
  std::vector<std::shared_ptr<TrainerCallback>> callbacks{};
  LossFunction loss{};
  std::int64_t samples = 10;
};

TrainerState state_after(const TrainingArguments& arguments, const RunParts& parts = {}) {
  nn::GPT2LMHeadModel model(config_with_dropout());
  Trainer trainer({.model = model,
                   .args = arguments,
                   .train_dataset = std::make_shared<Rows>(parts.samples),
                   .eval_dataset = std::make_shared<Rows>(7),
                   .compute_loss = parts.loss,
                   .callbacks = parts.callbacks});
  trainer.train();
  return trainer.state();
}

// Of the updates, and of the evaluations.
using Losses = std::pair<std::vector<double>, std::vector<double>>;

Losses losses_in(const TrainerState& state) {
  Losses out;
  for (const LogEntry& entry : state.log_history) {
    if (entry.loss) out.first.push_back(*entry.loss);
    if (entry.eval_loss) out.second.push_back(*entry.eval_loss);
  }
  return out;
}

bool is_saved(const TemporaryFolder& folder, std::int64_t step) {
  return std::filesystem::exists(folder.file(fmt::format("out/checkpoint-{}/manifest.json", step)));
}

// ---- evaluations ----------------------------------------------------------------------------------------------------------

TEST(ResumedTraining, EvaluationsDoNotChangeTheDropoutMasksOnAnyNumberOfRanks) {
  const auto losses_on = [](int ranks, bool evaluates) {
    Losses out;
    on_ranks(ranks, [&](int rank) {
      TrainingArguments arguments = short_run(4);
      arguments.per_device_eval_batch_size = 1;  // 7 batches on one rank, 3 on three, 2 on four
      arguments.eval_strategy = evaluates ? "steps" : "no";
      arguments.eval_steps = 1;
      const TrainerState state = state_after(arguments);
      if (rank == 0) out = losses_in(state);
    });
    return out;
  };
  const std::vector<double> expected = losses_on(1, false).first;
  const Losses one = losses_on(1, true);
  EXPECT_EQ(one.first, expected);
  EXPECT_EQ(one.second.size(), 4U);
  for (const int ranks : {3, 4}) {
    const Losses other = losses_on(ranks, true);
    ASSERT_EQ(other.first.size(), expected.size());
    EXPECT_EQ(other.second.size(), 4U);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(other.first[i], expected[i], 1e-9) << ranks;
  }
}

struct RandomStateAtStart final : TrainerCallback {
  std::uint64_t step = 0;
  void on_train_begin(const TrainerEvent&) override { step = random_state().step; }
};

TEST(ResumedTraining, AnEvaluationThatFailsLeavesTheRandomNumbersAsTheyWere) {
  const FreshRank rank;
  TrainingArguments arguments = short_run(2);
  arguments.eval_on_start = true;
  arguments.per_device_eval_batch_size = 1;
  int batches = 0;
  const auto start = std::make_shared<RandomStateAtStart>();
  const RunParts failing{
      .callbacks = {start}, .loss = [&](nn::PretrainedModel& model, const BatchTensors& batch) -> LossParts {
        require(++batches < 3, "a bad batch");
        return {model.run({{"input_ids", batch.tensor("input_ids")}, {"labels", batch.tensor("labels")}}).loss,
                Tensor::scalar(DType::kF64, 1)};
      }};
  EXPECT_EQ(error_of([&] { state_after(arguments, failing); }), "a bad batch");
  EXPECT_EQ(random_state().step, start->step);
}

TEST(ResumedTraining, TheEvaluationAtTheStartIsNotRepeated) {
  const TemporaryFolder folder;
  TrainingArguments arguments = short_run(2, folder.file("out"));
  arguments.eval_on_start = true;
  {
    const FreshRank rank;
    EXPECT_EQ(losses_in(state_after(arguments)).second.size(), 1U);
  }
  const FreshRank rank;
  arguments.max_steps = 4;
  arguments.resume_from_checkpoint = folder.file("out/checkpoint-2");
  const Losses losses = losses_in(state_after(arguments));
  EXPECT_EQ(losses.first.size(), 4U);
  EXPECT_EQ(losses.second.size(), 1U);
}

struct FailingUpdate final : TrainerCallback {
  void on_step_begin(const TrainerEvent& event) override { require(event.state.global_step < 5, "a bad sample"); }
};

// ---- checkpoints ----------------------------------------------------------------------------------------------------------

TEST(ResumedTraining, EpochsCountOnAfterARunThatIgnoredTheSkippedData) {
  const TemporaryFolder folder;
  TrainingArguments arguments = short_run(3, folder.file("out"));
  const auto epoch_of = [&] {
    const FreshRank rank;
    return state_after(arguments).epoch;
  };
  EXPECT_EQ(epoch_of(), 1.5);
  arguments.resume_from_checkpoint = folder.file("out/checkpoint-3");
  arguments.ignore_data_skip = true;
  arguments.max_steps = 5;
  EXPECT_EQ(epoch_of(), 2.5);
  arguments.resume_from_checkpoint = folder.file("out/checkpoint-5");
  arguments.ignore_data_skip = false;
  arguments.max_steps = 6;
  EXPECT_EQ(epoch_of(), 3);
}

TEST(ResumedTraining, AnotherNumberOfSamplesIsNamedWithThePosition) {
  const TemporaryFolder folder;
  TrainingArguments arguments = short_run(3, folder.file("out"));
  double epoch = 0;
  const auto said = [&](std::int64_t samples) {
    const FreshRank rank;
    ::testing::internal::CaptureStderr();
    epoch = state_after(arguments, {.samples = samples}).epoch;
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string what = "the data has another number of samples: 10 in an epoch before, 20 now; the run ";
  EXPECT_EQ(said(10).find("number of samples"), std::string::npos);
  EXPECT_EQ(epoch, 1.5);
  arguments.resume_from_checkpoint = folder.file("out/checkpoint-3");
  arguments.max_steps = 4;
  std::string text = said(20);
  EXPECT_NE(text.find("warning: " + what +
                      "continues after 15 samples, which are 0.75 epochs instead of 1.50: some samples are repeated or "
                      "left out (--ignore_data_skip begins with the first sample)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(epoch, 1) << "20 samples";
  arguments.ignore_data_skip = true;
  text = said(20);
  EXPECT_NE(text.find("warning: " + what + "begins with the first sample (--ignore_data_skip)\n"), std::string::npos)
      << text;
  EXPECT_EQ(epoch, 1.75) << "5 of 20 samples after 1.5 epochs";
}

TEST(ResumedTraining, AnErrorDoesNotLoseTheCheckpointThatIsBeingWritten) {
  const FreshRank rank;
  const TemporaryFolder folder;
  TrainingArguments arguments = short_run(9, folder.file("out"));
  arguments.save_steps = 5;
  EXPECT_EQ(error_of([&] { state_after(arguments, {.callbacks = {std::make_shared<FailingUpdate>()}}); }),
            "a bad sample");
  EXPECT_TRUE(is_saved(folder, 5));
  EXPECT_FALSE(std::filesystem::exists(folder.file("out/checkpoint-5.partial")));
}

TEST(ResumedTraining, ParametersThatAreNotFiniteAreNotSaved) {
  // The root of 0 is 0, and its slope is infinite.
  const RunParts parts{.loss = [](nn::PretrainedModel& model, const BatchTensors& batch) -> LossParts {
    const Tensor one = model.run({{"input_ids", batch.tensor("input_ids")}, {"labels", batch.tensor("labels")}}).loss;
    return {one + sqrt(one * 0.0), Tensor::scalar(DType::kF64, 1)};
  }};
  for (const double largest : {0.0, 1.0}) {
    const FreshRank rank;
    const TemporaryFolder folder;
    TrainingArguments arguments = short_run(3, folder.file("out"));
    arguments.save_steps = 1;
    arguments.max_grad_norm = largest;
    EXPECT_EQ(error_of([&] { state_after(arguments, parts); }),
              "the norm of the gradients is nan at step 1; this update is not saved");
    EXPECT_FALSE(is_saved(folder, 1));
  }
}

TEST(ResumedTraining, TheBestCheckpointIsOneThatExists) {
  const FreshRank rank;
  const TemporaryFolder folder;
  TrainingArguments arguments = short_run(3, folder.file("out"));
  arguments.save_strategy = "best";
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 1;
  arguments.learning_rate = 0;  // so that no evaluation is better than the first one, whose checkpoint cannot be saved
  std::filesystem::create_directories(folder.file("out"));
  std::ofstream(folder.file("out/checkpoint-1")) << "a file in its place\n";
  const TrainerState state = state_after(arguments);
  EXPECT_TRUE(is_saved(folder, 2));
  EXPECT_FALSE(is_saved(folder, 3));
  EXPECT_EQ(state.best_model_checkpoint, folder.file("out/checkpoint-2"));
}

TEST(ResumedTraining, ATrainingThatStopsEarlyIsSavedAtItsEnd) {
  const TemporaryFolder folder;
  TrainingArguments arguments = short_run(40, folder.file("out"));
  arguments.learning_rate = 0;
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 3;
  arguments.save_steps = 30;
  arguments.early_stopping_patience = 2;
  const FreshRank rank;
  EXPECT_EQ(state_after(arguments).global_step, 9);
  EXPECT_TRUE(is_saved(folder, 9));
}

}  // namespace
}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
// Training in float16 with a loss scale (--fp16).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/trainer.h"
#include "trainer/runs/small_run.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

TrainingArguments scaled_run(std::int64_t steps) {
  TrainingArguments out = quiet(steps);
  out.dtype = "float32";
  out.fp16 = true;
  return out;
}

// Gradients of `factor` times the loss, which the scale also multiplies.
LossFunction loss_times(double factor) {
  return [factor](nn::PretrainedModel& model, const BatchTensors& batch) -> LossParts {
    const Tensor loss = model.run({{"input_ids", batch.tensor("input_ids")}, {"labels", batch.tensor("labels")}}).loss;
    return {loss * factor, Tensor::scalar(DType::kF64, 1)};
  };
}

// The losses of the updates. Each run begins with the same parameters. Without dropout, equal parameters give equal losses.
std::vector<double> scaled_losses(const TrainingArguments& arguments, const LossFunction& loss = {}) {
  const FreshRank rank;
  nn::GPT2Config config = tiny_config();
  config.dtype = DType::kF32;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0;
  nn::GPT2LMHeadModel model(config);
  Trainer trainer({.model = model,
                   .args = arguments,
                   .train_dataset = std::make_shared<Rows>(10),
                   .eval_dataset = std::make_shared<Rows>(7),
                   .compute_loss = loss});
  trainer.train();
  std::vector<double> out;
  for (const LogEntry& entry : trainer.state().log_history)
    if (entry.loss) out.push_back(*entry.loss);
  return out;
}

// How many of the first losses of the same batch are equal.
std::size_t updates_without_effect(const std::vector<double>& losses) {
  const auto other = std::find_if(losses.begin(), losses.end(), [&](double loss) { return loss != losses.front(); });
  return static_cast<std::size_t>(other - losses.begin()) - 1;
}

// Every update has the same five samples.
TrainingArguments on_one_batch(TrainingArguments arguments) {
  arguments.max_train_samples = 5;
  arguments.train_sampling_strategy = "sequential";
  return arguments;
}

TEST(LossScale, TrainingInFloat16FollowsFloat32) {
  TrainingArguments exact = scaled_run(30);
  exact.fp16 = false;
  const std::vector<double> wide = scaled_losses(exact);
  const std::vector<double> narrow = scaled_losses(scaled_run(30));
  ASSERT_EQ(narrow.size(), 30U);
  EXPECT_NE(wide.front(), narrow.front());  // float16 rounds
  EXPECT_NEAR(wide.front(), narrow.front(), 1e-2);
  EXPECT_LT(wide.back(), 0.8 * wide.front());
  // The first updates in float16 may have no effect.
  EXPECT_NEAR(wide.back(), narrow.back(), 0.1 * wide.front());
}

TEST(LossScale, UpdatesWhoseGradientsAreNotFiniteHaveNoEffect) {
  const std::vector<double> large = scaled_losses(on_one_batch(scaled_run(16)), loss_times(128));
  const std::vector<double> larger = scaled_losses(on_one_batch(scaled_run(16)), loss_times(512));
  EXPECT_GT(updates_without_effect(large), 0U);
  // Each such update halves the scale, so four times the loss has two more of them.
  EXPECT_EQ(updates_without_effect(larger), updates_without_effect(large) + 2);
  EXPECT_LT(larger.back(), larger.front());
}

LossParts loss_of(nn::PretrainedModel& model, const BatchTensors& batch) {
  return {model.run({{"input_ids", batch.tensor("input_ids")}, {"labels", batch.tensor("labels")}}).loss,
          Tensor::scalar(DType::kF64, 1)};
}

// Of the two batches of an epoch in order, only the first one has a row that begins with token 0.
LossParts infinite_in_the_first_batch(nn::PretrainedModel& model, const BatchTensors& batch) {
  LossParts out = loss_of(model, batch);
  const Tensor first_tokens = batch.tensor("input_ids").narrow(1, 0, 1);
  const Tensor least = min(first_tokens.to(out.sum.dtype()));
  out.sum = out.sum / minimum(least, 1.0);  // the tokens are integers: a division by 0 or by 1
  return out;
}

TEST(LossScale, AnUpdateWhoseLossIsNotFiniteHasNoEffect) {
  for (const std::int64_t micro_batches : {1, 5}) {
    TrainingArguments arguments = scaled_run(16);
    arguments.train_sampling_strategy = "sequential";
    arguments.global_batch_size = 5 / micro_batches;
    arguments.gradient_accumulation_steps = micro_batches;
    const std::vector<double> losses = scaled_losses(arguments, infinite_in_the_first_batch);
    ASSERT_EQ(losses.size(), 16U);
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(std::isfinite(losses[i]), i % 2 == 1) << i;
    EXPECT_LT(losses.back(), losses[1]);
  }
}

TEST(LossScale, TheLossesOfALogLineAreThoseThatAreFinite) {
  TrainingArguments arguments = scaled_run(8);
  arguments.train_sampling_strategy = "sequential";
  arguments.logging_steps = 2;
  for (const double loss : scaled_losses(arguments, infinite_in_the_first_batch)) {
    EXPECT_GT(loss, 1.5);  // a sum of one loss, divided by two updates, would be less
    EXPECT_LT(loss, 4);
  }
}

TEST(LossScale, ARunEndsIfASmallerScaleDoesNotHelp) {
  const auto error_with = [](const LossFunction& loss) {
    return error_of([&] { scaled_losses(on_one_batch(scaled_run(99)), loss); });
  };
  // Rows 0 to 4: every batch is the first one.
  EXPECT_EQ(error_with(infinite_in_the_first_batch),
            "the last 10 losses up to step 10 are not finite, and a smaller loss scale does not change losses; --bf16 "
            "has the range of float32");
  const LossFunction root_of_zero = [](nn::PretrainedModel& model, const BatchTensors& batch) {
    LossParts out = loss_of(model, batch);
    out.sum = out.sum + sqrt(out.sum * 0.0);  // its slope is infinite
    return out;
  };
  EXPECT_EQ(error_with(root_of_zero),
            "the gradients are not finite after step 31, although the loss scale has fallen to 3.1e-05; --bf16 has the "
            "range of float32");
}

TEST(LossScale, AContinuedRunHasTheScaleOfTheCheckpoint) {
  const LossFunction loss = loss_times(64);
  const std::vector<double> expected = scaled_losses(on_one_batch(scaled_run(10)), loss);
  const TemporaryFolder folder;
  TrainingArguments first = on_one_batch(scaled_run(10));
  first.output_dir = folder.file("out");
  first.save_strategy = "steps";
  first.save_steps = 4;  // with the initial scale, other updates after it would have no effect
  EXPECT_EQ(scaled_losses(first, loss), expected);
  TrainingArguments second = first;
  second.resume_from_checkpoint = folder.file("out/checkpoint-4");
  second.output_dir = folder.file("second");
  EXPECT_EQ(scaled_losses(second, loss), expected);
}

}  // namespace
}  // namespace tessera::trainer

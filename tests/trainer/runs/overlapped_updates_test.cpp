// SPDX-License-Identifier: Apache-2.0
// While an update runs, the Trainer prepares the next one: nothing between the updates waits for the step that runs.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "frontend/on_ranks.h"
#include "tessera/base/options.h"
#include "tessera/frontend/execution/step.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/trainer/trainer.h"
#include "trainer/runs/small_run.h"

namespace tessera::trainer {
namespace {

std::int64_t waits() {
  const auto data = metrics().metric_data("DeviceLockWait");
  return data ? data->total_samples : 0;
}

// Notes the updates whose step is still under way when on_step_end() is called.
struct StepsUnderWay final : TrainerCallback {
  std::vector<std::int64_t> updates;
  void on_step_end(const TrainerEvent& event) override {
    const std::int64_t before = waits();
    wait_device_ops();  // counts as a wait only if nothing has waited for the step before
    if (waits() > before) updates.push_back(event.state.global_step);
  }
};

TEST(Trainer, DoesNotWaitForTheStepThatRuns) {
  const FreshRank rank;
  options().set("TESSERA_ASYNC", "1");
  nn::GPT2LMHeadModel model(tiny_config());
  TrainingArguments arguments = quiet(5);
  arguments.logging_strategy = "no";
  const auto steps = std::make_shared<StepsUnderWay>();
  Trainer trainer(
      {.model = model, .args = arguments, .train_dataset = std::make_shared<Rows>(10), .callbacks = {steps}});
  (void)trainer.train();
  // The report of the program reads its counts after the first update, and waits for it.
  EXPECT_EQ(steps->updates, (std::vector<std::int64_t>{2, 3, 4, 5}));
}

}  // namespace
}  // namespace tessera::trainer

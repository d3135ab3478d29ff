// SPDX-License-Identifier: Apache-2.0
// With gradient accumulation, the last update of an epoch has the micro-batches that remain.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/data/collate.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/trainer.h"
#include "trainer/runs/small_run.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::TemporaryFolder;

// Twelve rows whose last labels do not count; their number depends on the row.
class UnevenRows final : public data::Source {
 public:
  [[nodiscard]] std::int64_t size() const override { return 12; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override {
    data::Arrays sample = Rows(size()).get(i);
    const auto row = sample.at("labels").data<std::int32_t>();
    std::vector<std::int32_t> labels(row.begin(), row.end());
    std::fill(labels.begin() + 2 + i % 4, labels.end(), data::kIgnoredLabel);
    return {{"input_ids", sample.at("input_ids")}, {"labels", Literal::from<std::int32_t>({kTime}, labels)}};
  }
};

LossParts losses_of_labels(nn::PretrainedModel& model, const BatchTensors& batch) {
  const Tensor logits = model.run({{"input_ids", batch.tensor("input_ids")}}).logits;
  const auto parts = cross_entropy_parts(logits, batch.tensor("labels"), data::kIgnoredLabel);
  return {parts.sum, parts.count};
}

TrainingArguments two_epochs(std::int64_t rows, std::int64_t micro_batches) {
  TrainingArguments out = quiet(-1);
  out.num_train_epochs = 2;
  out.global_batch_size = rows;
  out.gradient_accumulation_steps = micro_batches;
  return out;
}

struct Trained {
  TrainerState state;
  std::vector<double> values;  // losses and norms of the updates
};

Trained trained(const TrainingArguments& arguments, int ranks = 1) {
  Trained out;
  on_ranks(ranks, [&](int rank) {
    nn::GPT2LMHeadModel model(tiny_config());
    Trainer trainer({.model = model,
                     .args = arguments,
                     .train_dataset = std::make_shared<UnevenRows>(),
                     .compute_loss = losses_of_labels});
    trainer.train();
    if (rank != 0) return;
    out.state = trainer.state();
    for (const LogEntry& entry : out.state.log_history)
      if (entry.loss) out.values.insert(out.values.end(), {*entry.loss, *entry.grad_norm});
  });
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-9) << i;
}

// Micro-batches of 5, 5 and 2 rows give updates of 10 and 2 rows, as batches of 10 rows do.
TEST(LastUpdateOfAnEpoch, HasTheRowsOfTheLastLargeBatch) {
  const Trained large = trained(two_epochs(10, 1));
  ASSERT_EQ(large.values.size(), 8U);
  for (const int ranks : {1, 2}) {
    const Trained small = trained(two_epochs(5, 2), ranks);
    EXPECT_EQ(small.state.global_step, 4);
    EXPECT_EQ(small.state.epoch, 2);
    expect_near(small.values, large.values);
  }
}

// Six micro-batches of two rows: updates of four and of two.
TEST(LastUpdateOfAnEpoch, EndsTheEpochExactly) {
  const Trained run = trained(two_epochs(2, 4));
  std::vector<double> epochs;
  for (const LogEntry& entry : run.state.log_history) epochs.push_back(entry.epoch);
  EXPECT_EQ(epochs, (std::vector<double>{4.0 / 6, 1, 10.0 / 6, 2}));
}

TEST(LastUpdateOfAnEpoch, AnEpochThatIsShorterThanAnUpdateIsOneUpdate) {
  const Trained run = trained(two_epochs(5, 7));
  EXPECT_EQ(run.state.global_step, 2);
  EXPECT_EQ(run.state.epoch, 2);
}

// The run that continues after the first epoch has the updates of the uninterrupted run.
TEST(LastUpdateOfAnEpoch, ARunContinuesAfterIt) {
  const TemporaryFolder folder;
  TrainingArguments arguments = two_epochs(5, 2);
  const Trained complete = trained(arguments);
  arguments.output_dir = folder.file("out");
  arguments.save_strategy = "epoch";
  arguments.num_train_epochs = 1;
  EXPECT_EQ(trained(arguments).state.global_step, 2);
  arguments.num_train_epochs = 2;
  arguments.resume_from_checkpoint = folder.file("out/checkpoint-2");
  const Trained continued = trained(arguments);
  EXPECT_EQ(continued.state.global_step, 4);
  expect_near(continued.values, complete.values);
}

}  // namespace
}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
// The Trainer with a model and data sets: callbacks, early stopping, logs, and equal losses on any layout.
#include "tessera/trainer/trainer.h"
#include "trainer/runs/small_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "frontend/on_ranks.h"
#include "support/sanitizers.h"
#include "support/temporary_folder.h"
#include "tessera/data/tensor_dataset.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/progress.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

// Writes down the events of a run, with the step at which they happened.
struct Diary final : TrainerCallback {
  std::vector<std::string> lines;
  void note(const char* what, const TrainerEvent& event) {
    lines.push_back(fmt::format("{} {}", what, event.state.global_step));
  }
  void on_train_begin(const TrainerEvent& event) override { note("train", event); }
  void on_epoch_begin(const TrainerEvent& event) override { note("epoch", event); }
  void on_step_begin(const TrainerEvent& event) override { note("begin", event); }
  void on_step_end(const TrainerEvent& event) override { note("step", event); }
  void on_evaluate(const TrainerEvent& event) override { note("evaluate", event); }
  void on_save(const TrainerEvent& event) override { note("save", event); }
  void on_epoch_end(const TrainerEvent& event) override { note("epoch end", event); }
  void on_train_end(const TrainerEvent& event) override { note("end", event); }
};

// Checks the speed, the time and the remaining time of each entry about updates, of which there are `last`.
void expect_times(const std::vector<LogEntry>& history, std::int64_t last) {
  double before = 0;
  for (const LogEntry& entry : history) {
    if (!entry.loss) continue;
    ASSERT_TRUE(entry.ups && entry.time_since_start && entry.eta) << entry.step;
    EXPECT_GT(*entry.time_since_start, before) << entry.step;
    before = *entry.time_since_start;
    EXPECT_GT(*entry.ups, 0) << entry.step;
    EXPECT_NEAR(*entry.eta * *entry.ups, static_cast<double>(last - entry.step), 1e-9) << entry.step;
  }
}

TEST(Trainer, CallsTheEventsInHuggingFacesOrder) {
  const FreshRank rank;
  const TemporaryFolder folder;
  nn::GPT2LMHeadModel model(tiny_config());
  TrainingArguments arguments = quiet(3);
  arguments.output_dir = folder.file("out");
  arguments.eval_strategy = arguments.save_strategy = "steps";
  arguments.eval_steps = arguments.save_steps = 2;
  const auto diary = std::make_shared<Diary>();
  Trainer trainer({.model = model,
                   .args = arguments,
                   .train_dataset = std::make_shared<Rows>(10),
                   .eval_dataset = std::make_shared<Rows>(4),
                   .callbacks = {diary}});
  const TrainOutput output = trainer.train();
  EXPECT_EQ(output.global_step, 3);
  EXPECT_EQ(trainer.state().epoch, 1.5);
  EXPECT_EQ(trainer.state().num_train_epochs, 2) << "--max_steps takes precedence over --num_train_epochs";
  EXPECT_EQ(diary->lines, (std::vector<std::string>{"train 0", "epoch 0", "begin 0", "step 1", "begin 1", "step 2",
                                                    "evaluate 2", "save 2", "epoch end 2", "epoch 2", "begin 2",
                                                    "step 3", "evaluate 3", "save 3", "end 3"}));
  double sum = 0;
  std::vector<std::int64_t> logged;
  for (const LogEntry& entry : trainer.state().log_history)
    if (entry.loss) {
      logged.push_back(entry.step);
      sum += *entry.loss;
    }
  EXPECT_EQ(logged, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_NEAR(output.training_loss, sum / 3, 1e-12);
  expect_times(trainer.state().log_history, 3);
  EXPECT_TRUE(std::filesystem::exists(folder.file("out/checkpoint-2/manifest.json")));
}

// Asks for everything at step 2, and for the end at step 4.
struct Director final : TrainerCallback {
  std::vector<std::int64_t> logged;
  void on_step_end(const TrainerEvent& event) override {
    event.control.should_log = event.control.should_evaluate = event.state.global_step == 2;
    event.control.should_training_stop = event.state.global_step == 4;
  }
  void on_log(const TrainerEvent& event) override { logged.push_back(event.log->step); }
};

TEST(Trainer, CallbacksDecideWhatHappensNext) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(tiny_config());
  const auto director = std::make_shared<Director>();
  Trainer trainer({.model = model,
                   .args = quiet(9),
                   .train_dataset = std::make_shared<Rows>(10),
                   .eval_dataset = std::make_shared<Rows>(4),
                   .callbacks = {director}});
  EXPECT_EQ(trainer.train().global_step, 4);
  EXPECT_EQ(director->logged, (std::vector<std::int64_t>{2, 4}));
  const auto& history = trainer.state().log_history;
  EXPECT_EQ(
      std::count_if(history.begin(), history.end(), [](const LogEntry& entry) { return entry.eval_loss.has_value(); }),
      1);
}

TEST(EarlyStopping, EndsAfterEvaluationsWithoutProgress) {
  const TrainingArguments arguments;
  const TrainerState state;
  TrainingSetup setup;
  EarlyStoppingCallback callback(2, 0.1);
  const auto evaluated = [&](EarlyStoppingCallback& who, double loss) {
    TrainerControl control;
    const Metrics metrics{loss, {}, ""};
    who.on_evaluate({arguments, state, control, setup, nullptr, &metrics});
    return control.should_training_stop;
  };
  EXPECT_FALSE(evaluated(callback, 3.0));
  EXPECT_FALSE(evaluated(callback, 2.5));
  EXPECT_FALSE(evaluated(callback, 2.45));  // better, but by less than the threshold
  EarlyStoppingCallback resumed(2, 0.1);
  resumed.set_state(callback.state());
  EXPECT_TRUE(evaluated(callback, 2.5));
  EXPECT_TRUE(evaluated(resumed, 2.5));
  EXPECT_FALSE(evaluated(resumed, 2.0));
}

TEST(EarlyStopping, AMetricThatIsNotANumberIsNoProgressAndIsNotTheBest) {
  const TrainingArguments arguments;
  const TrainerState state;
  TrainingSetup setup;
  EarlyStoppingCallback callback(3);
  const auto evaluated = [&](double loss) {
    TrainerControl control;
    const Metrics metrics{loss, {}, ""};
    callback.on_evaluate({arguments, state, control, setup, nullptr, &metrics});
    return control.should_training_stop;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(evaluated(nan));
  EXPECT_FALSE(callback.state().has("best_metric"));
  EXPECT_FALSE(evaluated(nan));
  EXPECT_FALSE(evaluated(3.0));  // the first one that is known
  EXPECT_FALSE(evaluated(nan));
  EXPECT_FALSE(evaluated(nan));
  EXPECT_TRUE(evaluated(nan));
}

TEST(EarlyStopping, OfTheFlagEndsATraining) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(tiny_config());
  TrainingArguments arguments = quiet(40);
  arguments.learning_rate = 0;  // so that no evaluation is better than the first one
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 2;
  arguments.early_stopping_patience = 3;
  Trainer trainer({.model = model,
                   .args = arguments,
                   .train_dataset = std::make_shared<Rows>(10),
                   .eval_dataset = std::make_shared<Rows>(4)});
  EXPECT_EQ(trainer.train().global_step, 8);
}

struct Layout {
  int ranks = 1;
  std::string mesh;
  std::string fsdp;
  std::int64_t accumulation = 1;
};

struct DataSets {
  std::shared_ptr<const data::Source> train = std::make_shared<Rows>(23);
  std::shared_ptr<const data::Source> held_out = std::make_shared<Rows>(7);
};

std::vector<double> losses_of(const Layout& layout, const DataSets& sets = {}) {
  std::vector<double> out;
  on_ranks(layout.ranks, [&](int rank) {
    nn::GPT2LMHeadModel model(tiny_config());
    TrainingArguments arguments = quiet(5);
    arguments.mesh = layout.mesh;
    arguments.fsdp = layout.fsdp;
    arguments.gradient_accumulation_steps = layout.accumulation;
    Trainer trainer({.model = model, .args = arguments, .train_dataset = sets.train, .eval_dataset = sets.held_out});
    trainer.train();
    const auto metrics = trainer.evaluate();
    if (rank != 0) return;
    for (const LogEntry& entry : trainer.state().log_history)
      if (entry.loss) out.push_back(*entry.loss);
    out.push_back(metrics->loss);
  });
  return out;
}

TEST(Trainer, LossesAreEqualOnEveryLayout) {
  for (int accumulation = 1; accumulation <= testing::cases_here(2); ++accumulation) {
    const std::vector<double> expected = losses_of({1, "", "", accumulation});
    ASSERT_EQ(expected.size(), 6U);
    EXPECT_LT(expected[4], expected[0]);
    for (const Layout& layout : {Layout{2, "", "full_shard", accumulation}, Layout{3, "data=3", "", accumulation},
                                 Layout{6, "data=2,fsdp=3", "shard_grad_op", accumulation}}) {
      const std::vector<double> losses = losses_of(layout);
      ASSERT_EQ(losses.size(), expected.size());
      for (std::size_t i = 0; i < losses.size(); ++i)
        EXPECT_NEAR(losses[i], expected[i], 1e-9) << layout.mesh << " " << i;
    }
  }
}

// The samples of Rows, as arrays.
std::shared_ptr<const data::Source> in_memory(std::int64_t count) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const data::Arrays sample = Rows(count).get(i);
    const auto row = sample.at("input_ids").data<std::int32_t>();
    ids.insert(ids.end(), row.begin(), row.end());
  }
  const Literal all = Literal::from<std::int32_t>({count, kTime}, ids);
  return std::make_shared<data::TensorDataset>(data::Arrays{{"input_ids", all}, {"labels", all}});
}

// Neither the samples nor the rows of a batch are divisible by the ranks.
TEST(Trainer, ArraysInMemoryGiveTheLossesOfTheirSourceOnAnyNumberOfRanks) {
  const std::vector<double> expected = losses_of({});
  const DataSets sets{in_memory(23), in_memory(7)};
  EXPECT_EQ(losses_of({}, sets), expected);
  for (const Layout& layout : {Layout{2, "", "full_shard"}, Layout{4, "data=4", ""}}) {
    const std::vector<double> losses = losses_of(layout, sets);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-9) << layout.ranks << " " << i;
  }
}

// Rows whose last labels do not count; their number depends on the row.
class RaggedRows final : public data::Source {
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

LossParts label_losses(nn::PretrainedModel& model, const BatchTensors& batch) {
  const Tensor labels = batch.tensor("labels");
  const Tensor logits = model.run({{"input_ids", batch.tensor("input_ids")}}).logits;
  const auto parts = cross_entropy_parts(logits, labels, data::kIgnoredLabel);
  return {parts.sum, parts.count};
}

// The batch of an update is divided into micro-batches with different numbers of labels.
TEST(Trainer, EveryLabelOfAnUpdateHasTheSameWeight) {
  const auto trained = [](std::int64_t micro_batches, int ranks) {
    std::vector<double> out;
    on_ranks(ranks, [&](int rank) {
      nn::GPT2LMHeadModel model(tiny_config());
      TrainingArguments arguments = quiet(3);
      arguments.global_batch_size = 12 / micro_batches;
      arguments.gradient_accumulation_steps = micro_batches;
      arguments.train_sampling_strategy = "sequential";
      Trainer trainer({.model = model,
                       .args = arguments,
                       .train_dataset = std::make_shared<RaggedRows>(),
                       .compute_loss = label_losses});
      trainer.train();
      if (rank != 0) return;
      for (const LogEntry& entry : trainer.state().log_history)
        if (entry.loss) out.insert(out.end(), {*entry.loss, *entry.grad_norm});
    });
    return out;
  };
  const std::vector<double> expected = trained(1, 1);
  ASSERT_EQ(expected.size(), 6U);
  for (const auto& [micro_batches, ranks] : {std::pair{2, 1}, {4, 1}, {3, 2}}) {
    const std::vector<double> got = trained(micro_batches, ranks);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-9) << micro_batches << " " << i;
  }
}

// The last batch is smaller.
TEST(Trainer, EveryRowOfAnEvaluationHasTheSameWeight) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(tiny_config());
  const auto loss_with = [&](std::int64_t rows) {
    TrainingArguments arguments = quiet(1);
    arguments.per_device_eval_batch_size = rows;
    Trainer trainer({.model = model,
                     .args = arguments,
                     .train_dataset = std::make_shared<Rows>(10),
                     .eval_dataset = std::make_shared<Rows>(7)});
    return trainer.evaluate()->loss;
  };
  const double expected = loss_with(7);
  for (const std::int64_t rows : {1, 3, 4, 6}) EXPECT_NEAR(loss_with(rows), expected, 1e-12) << rows;
}

TEST(Trainer, AStepIsTracedOnceForEachShape) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(tiny_config());
  Trainer trainer({.model = model, .args = quiet(6), .train_dataset = std::make_shared<Rows>(10)});
  trainer.train();
  EXPECT_EQ(lazy_counters().compilations, 1 + 1);  // the initial values, and the step
}

TEST(Trainer, LossesThatAreNotFiniteAreReported) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(tiny_config());
  TrainingArguments arguments = quiet(9);
  arguments.logging_steps = 100;
  const LossFunction loss = [](nn::PretrainedModel& given, const BatchTensors& batch) {
    const Tensor one = given.run({{"input_ids", batch.tensor("input_ids")}, {"labels", batch.tensor("labels")}}).loss;
    return LossParts{one / (one - one), Tensor::scalar(DType::kF64, 1)};
  };
  Trainer trainer(
      {.model = model, .args = arguments, .train_dataset = std::make_shared<Rows>(10), .compute_loss = loss});
  EXPECT_EQ(error_of([&] { trainer.train(); }), "the loss is inf at step 1");
}

TEST(Trainer, WithoutSamplesOrLabelsTheErrorSaysWhatToGive) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(tiny_config());
  EXPECT_EQ(error_of([&] { Trainer({.model = model, .args = quiet(1)}); }),
            "Trainer: the data set has no samples; give train_dataset or eval_dataset");
}

TEST(Trainer, PlannedBatchesHaveTheArraysOfTheLoader) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(tiny_config());
  Trainer trainer({.model = model, .args = quiet(1), .train_dataset = std::make_shared<Rows>(10)});
  const data::Batch planned = trainer.task().planned_batch(5);
  const data::Batch read = trainer.task().loader().next_batch();
  EXPECT_EQ(planned.rows, read.rows);
  ASSERT_EQ(planned.fields.size(), read.fields.size());
  for (std::size_t i = 0; i < read.fields.size(); ++i) {
    EXPECT_EQ(planned.fields[i].name, read.fields[i].name);
    EXPECT_EQ(planned.fields[i].type, read.fields[i].type);
  }
  TrainingArguments dry = quiet(1);
  dry.dry_run = true;
  EXPECT_EQ(
      error_of([&] { Trainer({.model = model, .args = dry, .train_dataset = std::make_shared<Rows>(10)}); }),
      "--dry_run works only in the training programs, which make the model themselves; a Trainer is given a model");
}

TEST(LogText, FitsIn80Columns) {
  EXPECT_EQ(log_text({.step = 50,
                      .loss = 2.0812,
                      .learning_rate = 1e-3,
                      .grad_norm = 0.512,
                      .tokens_per_second = 8123,
                      .mfu = 0.312},
                     {.last_step = 1000, .exposed_part = 0.03}),
            "step   50  loss 2.0812  lr 0.001  norm 0.51  8.12k tokens/s  MFU 31%  comm 3%");
  const LogEntry long_entry{.step = 99'999,
                            .loss = 10.12345,
                            .learning_rate = 1.23e-5,
                            .grad_norm = 1.23,
                            .tokens_per_second = 123'456,
                            .mfu = 0.312};
  EXPECT_LE(log_text(long_entry, {.last_step = 99'999, .exposed_part = 0.034}).size(), 80U);
}

}  // namespace
}  // namespace tessera::trainer

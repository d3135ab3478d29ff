// SPDX-License-Identifier: Apache-2.0
// --logging_format mmf: the form of the lines, and the numbers in those of a training.
#include "run/mmf_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/on_ranks.h"
#include "tessera/base/text.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/trainer.h"

namespace tessera::trainer {
namespace {

TEST(MmfLog, HasTheFieldsOfMmfInItsOrder) {
  LogEntry entry{.step = 50, .epoch = 1.25, .loss = 0.60938, .learning_rate = 2e-5};
  entry.ups = 7.6923;
  entry.time_since_start = 9.873;
  entry.eta = 188.5;
  EXPECT_EQ(
      mmf_log_text(
          entry,
          {.experiment = "visual", .last_step = 1500, .iterations = 150, .mean_loss = 0.64761, .seconds = 6.5026}),
      "progress: 50/1500, train/loss_0: 0.6094, train/loss_0/avg: 0.6476, train/total_loss: 0.6094, "
      "train/total_loss/avg: 0.6476, experiment: visual, epoch: 2, num_updates: 50, iterations: 150, "
      "max_updates: 1500, lr: 0.00002, ups: 7.69, time: 06s 502ms, time_since_start: 09s 873ms, "
      "eta: 03m 08s 500ms");
}

TEST(MmfLog, CountsEpochsFromOne) {
  const auto epoch_at = [](double completed) {
    const std::string line = mmf_log_text({.step = 1, .epoch = completed}, {});
    const auto at = line.find("epoch: ");
    return line.substr(at, line.find(',', at) - at);
  };
  EXPECT_EQ(epoch_at(0), "epoch: 1");
  EXPECT_EQ(epoch_at(0.5), "epoch: 1");
  EXPECT_EQ(epoch_at(1), "epoch: 1");  // after the last update of the first one
  EXPECT_EQ(epoch_at(1.01), "epoch: 2");
}

TEST(MmfLog, WritesRatesAsDecimalsWithThreeDigitsOrMore) {
  const auto rate_text = [](double rate) {
    const std::string line = mmf_log_text({.step = 1, .learning_rate = rate}, {});
    const auto at = line.find("lr: ");
    return line.substr(at, line.find(',', at) - at);
  };
  EXPECT_EQ(rate_text(0.25), "lr: 0.25");
  EXPECT_EQ(rate_text(0.123456789), "lr: 0.12346");
  EXPECT_EQ(rate_text(4.83333e-5), "lr: 0.0000483");
  EXPECT_EQ(rate_text(1e-9), "lr: 0.000000001");
  EXPECT_EQ(rate_text(0), "lr: 0.0");
  EXPECT_EQ(rate_text(2), "lr: 2.0");
}

TEST(MmfLog, DurationsLeaveOutUnitsThatAreZero) {
  EXPECT_EQ(mmf_duration_text(142.173), "02m 22s 173ms");
  EXPECT_EQ(mmf_duration_text(35'339.407), "09h 48m 59s 407ms");
  EXPECT_EQ(mmf_duration_text(3600), "01h");
  EXPECT_EQ(mmf_duration_text(100 * 3600 + 0.25), "100h 250ms");
  EXPECT_EQ(mmf_duration_text(0), "0ms");
  EXPECT_EQ(mmf_duration_text(0.0004), "0ms");
  EXPECT_EQ(mmf_duration_text(-1), "?");
  EXPECT_EQ(mmf_duration_text(INFINITY), "?");
}

// Rows of six tokens.
class RowsToLog final : public data::Source {
 public:
  [[nodiscard]] std::int64_t size() const override { return 10; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override {
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < 6; ++t) ids.push_back(static_cast<std::int32_t>((i + t) % 7));
    return {{"input_ids", Literal::from<std::int32_t>({6}, ids)}, {"labels", Literal::from<std::int32_t>({6}, ids)}};
  }
};

// Trains with mmf's lines. Returns the state, and what was printed to standard error.
std::pair<TrainerState, std::string> train_with_mmf_lines(const TrainingArguments& arguments) {
  nn::GPT2Config config;
  config.vocab_size = 7;
  config.n_positions = 6;
  config.n_embd = 4;
  config.n_layer = 1;
  config.n_head = 1;
  nn::GPT2LMHeadModel model(config);
  Trainer trainer({.model = model, .args = arguments, .train_dataset = std::make_shared<RowsToLog>()});
  ::testing::internal::CaptureStderr();
  trainer.train();
  return {trainer.state(), ::testing::internal::GetCapturedStderr()};
}

// The first two lines are about two updates each, the last one about the one that remains. An epoch has updates of three
// micro-batches and of one.
TEST(MmfLog, OfATrainingHasTheMeansOfItsLosses) {
  const FreshRank rank;
  TrainingArguments arguments;
  arguments.logging_format = "mmf";
  arguments.run_name = "small";
  arguments.max_steps = 5;
  arguments.logging_steps = 2;
  arguments.global_batch_size = 3;
  arguments.gradient_accumulation_steps = 3;
  arguments.learning_rate = 1e-2;
  arguments.disable_tqdm = true;
  arguments.save_strategy = "no";
  const auto [state, printed] = train_with_mmf_lines(arguments);
  std::vector<std::string> lines = split(printed, '\n');
  ASSERT_EQ(lines.size(), 4U) << printed;  // three, and the end
  ASSERT_EQ(state.log_history.size(), 3U);
  double sum = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const LogEntry& entry = state.log_history[i];
    sum += *entry.loss * static_cast<double>(entry.step - before);
    const std::string loss = fmt::format("{:.4f}", *entry.loss);
    const std::string mean = fmt::format("{:.4f}", sum / static_cast<double>(entry.step));
    EXPECT_TRUE(lines[i].starts_with(fmt::format(
        "progress: {0}/5, train/loss_0: {1}, train/loss_0/avg: {2}, train/total_loss: {1}, train/total_loss/avg: {2}, "
        "experiment: small, epoch: {3}, num_updates: {0}, iterations: {4}, max_updates: 5, lr: ",
        entry.step, loss, mean, (entry.step + 1) / 2, entry.step / 2 * 4 + entry.step % 2 * 3)))
        << lines[i];
    const std::string time = mmf_duration_text(static_cast<double>(entry.step - before) / *entry.ups);
    EXPECT_NE(lines[i].find(fmt::format(", ups: {:.2f}, time: {}, time_since_start: {}, eta: ", *entry.ups, time,
                                        mmf_duration_text(*entry.time_since_start))),
              std::string::npos)
        << lines[i];
    before = entry.step;
  }
}

}  // namespace
}  // namespace tessera::trainer

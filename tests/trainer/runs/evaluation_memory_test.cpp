// SPDX-License-Identifier: Apache-2.0
// Before the first update, a run with larger batches in evaluations checks that an evaluation fits into memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/trainer.h"
#include "trainer/runs/small_run.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;

TrainingArguments with_eval_rows(std::int64_t rows) {
  TrainingArguments out = quiet(3);
  out.per_device_eval_batch_size = rows;
  return out;
}

struct TrainedWithEvaluation {
  std::vector<double> losses;  // of the updates; they depend on random numbers (dropout)
  std::int64_t compilations = 0;
};

TrainedWithEvaluation trained_on(int ranks, const TrainingArguments& arguments) {
  TrainedWithEvaluation out;
  on_ranks(ranks, [&](int rank) {
    nn::GPT2LMHeadModel model(tiny_config());
    Trainer trainer({.model = model,
                     .args = arguments,
                     .train_dataset = std::make_shared<Rows>(10),
                     .eval_dataset = std::make_shared<Rows>(7)});
    trainer.train();
    if (rank != 0) return;
    out.compilations = lazy_counters().compilations;
    for (const LogEntry& entry : trainer.state().log_history)
      if (entry.loss) out.losses.push_back(*entry.loss);
  });
  return out;
}

TEST(EvaluationOfARun, ItsPlanDoesNotChangeTheTraining) {
  for (const int ranks : {1, 2}) {
    const TrainedWithEvaluation planned = trained_on(ranks, with_eval_rows(64));
    const TrainedWithEvaluation other = trained_on(ranks, with_eval_rows(1));
    EXPECT_EQ(planned.losses.size(), 3U);
    EXPECT_EQ(planned.losses, other.losses);
    EXPECT_EQ(planned.compilations, other.compilations);
  }
}

// The error of a training that may use so many bytes more than the process holds.
std::string error_of_training(std::int64_t rows, std::int64_t bytes) {
  const FreshRank rank;
  options().set("TESSERA_MEMORY_LIMIT", fmt::format("{}B", process_memory() + bytes));
  nn::GPT2LMHeadModel model(tiny_config());
  Trainer trainer({.model = model,
                   .args = with_eval_rows(rows),
                   .train_dataset = std::make_shared<Rows>(10),
                   .eval_dataset = std::make_shared<Rows>(7)});
  const std::string out = error_of([&] { trainer.train(); });
  EXPECT_EQ(trainer.state().log_history.empty(), out != "no error") << "an error precedes the first update";
  return out;
}

TEST(EvaluationOfARun, ThatDoesNotFitEndsATrainerBeforeTheFirstUpdate) {
  constexpr std::int64_t kRows = 1 << 20;
  constexpr std::int64_t kBytesOfHidden = kRows * kTime * 12 * 8;  // one value of the residual stream: 576 MB
  const std::string text = error_of_training(kRows, kBytesOfHidden / 2);
  EXPECT_NE(text.find("--per_device_eval_batch_size 1048576: an evaluation does not fit into memory: the process of "
                      "rank 0: "),
            text.npos)
      << text;
  EXPECT_NE(text.find("possible remedies: more ranks"), text.npos) << text;
  EXPECT_EQ(error_of_training(64, kBytesOfHidden / 2), "no error");
}

}  // namespace
}  // namespace tessera::trainer

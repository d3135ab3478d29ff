// SPDX-License-Identifier: Apache-2.0
// The part of the time of a training in which the execution waits for the host. The tests compare runs whose shares
// differ widely, because machines are busy.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "frontend/on_ranks.h"
#include "run/host_share.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/trainer.h"

namespace tessera::trainer {
namespace {

constexpr std::int64_t kLength = 12;
constexpr std::int64_t kBatch = 16;
constexpr auto kNoDelay = std::chrono::milliseconds(0);
constexpr auto kLongDelay = std::chrono::milliseconds(40);

// Rows of tokens, each of which takes some time on one rank.
class SlowRows final : public data::Source {
 public:
  SlowRows(std::chrono::milliseconds delay, int slow_rank) : delay_(delay), slow_rank_(slow_rank) {}
  [[nodiscard]] std::int64_t size() const override { return 3 * kBatch; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override {
    if (RankContext::current().rank() == slow_rank_) std::this_thread::sleep_for(delay_);
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < kLength; ++t) ids.push_back(static_cast<std::int32_t>((5 * i + t) % 13));
    return {{"input_ids", Literal::from<std::int32_t>({kLength}, ids)},
            {"labels", Literal::from<std::int32_t>({kLength}, ids)}};
  }

 private:
  std::chrono::milliseconds delay_;
  int slow_rank_;
};

struct Job {
  int ranks = 1;
  std::chrono::milliseconds delay = kNoDelay;  // of a row
  int slow_rank = 0;
  std::int64_t updates = 5;
};

// The share of rank 0. The model is wide enough that an update takes longer than its preparation.
std::optional<double> share_of(const Job& job) {
  std::optional<double> out;
  on_ranks(job.ranks, [&](int rank) {
    nn::GPT2Config config;
    config.vocab_size = 13;
    config.n_positions = kLength;
    config.n_embd = 96;
    config.n_layer = 2;
    config.n_head = 4;
    nn::GPT2LMHeadModel model(config);
    TrainingArguments arguments;
    arguments.max_steps = job.updates;
    arguments.global_batch_size = kBatch;
    arguments.disable_tqdm = true;
    arguments.save_strategy = "no";
    Trainer trainer(
        {.model = model, .args = arguments, .train_dataset = std::make_shared<SlowRows>(job.delay, job.slow_rank)});
    const TrainOutput output = trainer.train();
    if (rank == 0) out = output.host_share;
  });
  return out;
}

TEST(HostShare, IsLargeIfTheSourceIsSlow) {
  const std::optional<double> normal = share_of({});
  const std::optional<double> slow = share_of({.delay = kLongDelay});
  ASSERT_TRUE(normal && slow);
  EXPECT_GE(*normal, 0);
  EXPECT_LE(*slow, 1);
  EXPECT_GT(*slow, 0.3);
  EXPECT_LT(*normal, *slow - 0.15);
}

TEST(HostShare, CountsTheWaitForTheHostOfAnotherRank) {
  const std::optional<double> normal = share_of({.ranks = 2});
  const std::optional<double> slow = share_of({.ranks = 2, .delay = kLongDelay, .slow_rank = 1});
  ASSERT_TRUE(normal && slow);
  EXPECT_GT(*slow, 0.2);
  EXPECT_LT(*normal, *slow - 0.1);
}

TEST(HostShare, NeedsASecondUpdate) {
  EXPECT_EQ(share_of({.updates = 1}), std::nullopt);
  EXPECT_TRUE(share_of({.updates = 2}).has_value());
}

TEST(HostShare, LeavesOutTheTimeBetweenPeriods) {
  const FreshRank rank;
  HostShare share;
  EXPECT_FALSE(share.stop());
  EXPECT_EQ(share.line(), "");
  share.start();
  EXPECT_TRUE(share.stop());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  share.start();
  share.start();  // the period goes on
  EXPECT_TRUE(share.stop());
  EXPECT_EQ(share.share(), 1) << "nothing ran";
  const std::string line = share.line();
  EXPECT_TRUE(line.starts_with("host       the execution of rank 0 waited for the host in 100% of the time: ")) << line;
  EXPECT_EQ(line.find("0.3"), std::string::npos) << line;
}

}  // namespace
}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
// The state of every optimizer, averages and loss scales are saved on one mesh and loaded on another.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/training_run.h"
#include "frontend/on_ranks.h"
#include "support/sanitizers.h"
#include "support/temporary_folder.h"
#include "tessera/optim/ema.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/grad_scaler.h"

namespace tessera {
namespace {

using testing::TemporaryFolder;

// Training with another optimizer, an average of the weights and loss scaling.
struct FullRun {
  FullRun(const Layout& layout, const std::string& name, std::uint64_t seed) : model(Training::config()) {
    manual_seed(seed);
    shard(model, layout);
    optimizer = optim::make_optimizer(name, {{model.parameters()}}, {.learning_rate = 0.01});
    ema = std::make_unique<optim::ExponentialMovingAverage>(model.parameters(), optim::EmaOptions{.decay = 0.5});
  }
  void steps(int first, int count) {
    for (int step = first; step < first + count; ++step) {
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 6 * 7; ++i) tokens.push_back((i * i + step) % 29);
      const Tensor batch = Tensor::from<std::int32_t>({6, 7}, tokens);
      model.zero_grad();
      scaler.scale(model(batch, batch)).backward();
      scaler.step(*optimizer);
      scaler.update();
      ema->update();
      mark_step();
    }
  }
  [[nodiscard]] std::map<std::string, StateDict> states() const {
    return {{"model", model.state_dict()},
            {"optimizer", optimizer->state_dict()},
            {"ema", ema->state_dict()},
            {"scaler", scaler.state_dict()}};
  }
  void load(const std::string& folder) {
    const Checkpoint from(folder);
    for (const auto& [group, state] : states()) from.load(group, state);
  }
  // Of the weights and of the averages. The bias of the keys has no effect on the loss, so its gradient is rounding.
  [[nodiscard]] std::map<std::string, Literal> values() const {
    std::map<std::string, Literal> out;
    const auto all = states();
    for (const char* group : {"model", "ema"})
      for (const auto& entry : all.at(group).entries())
        if (!entry.name.ends_with("c_attn.bias")) out.emplace(entry.name, entry.tensor.to_host());
    return out;
  }
  nn::GPT2LMHeadModel model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::ExponentialMovingAverage> ema;
  optim::GradScaler scaler{{.init_scale = 4, .growth_interval = 3}};
};

void expect_close(const std::map<std::string, Literal>& values, const std::map<std::string, Literal>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (const auto& [name, value] : expected) {
    for (std::int64_t i = 0; i < value.type().element_count(); ++i)
      ASSERT_NEAR(element_as_double(values.at(name), i), element_as_double(value, i), 1e-9) << name << " " << i;
  }
}

class OptimizerCheckpoints : public ::testing::TestWithParam<const char*> {};

TEST_P(OptimizerCheckpoints, AnotherMeshContinuesTheRun) {
  const TemporaryFolder folder;
  std::map<std::string, Literal> expected;
  {
    const FreshRank rank;
    FullRun run({1, "data=1", false, false}, GetParam(), 7);
    run.steps(0, 6);
    expected = run.values();
  }
  on_ranks(3, [&](int) {
    FullRun run({3, "fsdp=3", true, false}, GetParam(), 7);
    run.steps(0, 3);
    CheckpointContent content;
    content.states = run.states();
    save_checkpoint(folder.file("checkpoint-3"), content);
  });
  on_ranks(6, [&](int) {
    FullRun run({6, "fsdp=2,model=3", true, true}, GetParam(), 99);
    run.load(folder.file("checkpoint-3"));
    EXPECT_EQ(run.optimizer->step_count(), 3);
    run.steps(3, 3);
    EXPECT_EQ(run.scaler.get_scale(), 16);  // it grew after 3 and after 6 steps
    expect_close(run.values(), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Names, OptimizerCheckpoints,
                         ::testing::ValuesIn(testing::cases_of<const char*>({"adafactor", "muon", "adam", "sgd",
                                                                             "nadam"})),
                         [](const auto& info) { return std::string(info.param); });

// State in bf16 is rounded with random numbers, which continue too.
TEST(OptimizerCheckpointsInBFloat16, TheSameMeshContinuesBitForBit) {
  const TemporaryFolder folder;
  std::map<std::string, Literal> expected;
  const Layout layout{2, "fsdp=2", true, false};
  RandomState random;
  on_ranks(2, [&](int rank) {
    FullRun run(layout, "adamw_anyprecision", 7);
    run.steps(0, 2);
    CheckpointContent content;
    content.states = run.states();
    save_checkpoint(folder.file("checkpoint-2"), content);
    const RandomState saved = random_state();
    run.steps(2, 2);
    auto values = run.values();
    if (rank == 0) expected = std::move(values), random = saved;
  });
  on_ranks(2, [&](int) {
    FullRun run(layout, "adamw_anyprecision", 7);
    run.load(folder.file("checkpoint-2"));
    set_random_state(random);
    run.steps(2, 2);
    const auto values = run.values();
    for (const auto& [name, value] : expected) EXPECT_EQ(values.at(name), value) << name;
  });
}

}  // namespace
}  // namespace tessera

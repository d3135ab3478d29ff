// SPDX-License-Identifier: Apache-2.0
// The plan of a model from two and three of its layers equals the plan of all layers.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/nn/models/gpt2_presets.h"
#include "tessera/trainer/training_plan.h"

namespace tessera {
namespace {

trainer::TrainingPlanOptions six_layers(bool checkpoint) {
  trainer::TrainingPlanOptions out;
  out.config.vocab_size = 211, out.config.n_positions = 32, out.config.n_embd = 48, out.config.n_head = 3;
  out.config.n_layer = 6;
  out.mesh = Mesh({{"fsdp", 4}});
  out.rows = 8;
  out.checkpoint_blocks = checkpoint;
  return out;
}

class TrainingPlans : public ::testing::TestWithParam<bool> {};

TEST_P(TrainingPlans, OfTwoAndThreeLayersExtendToAllLayers) {
  const auto options = six_layers(GetParam());
  const auto extended = trainer::plan_gpt2_training(options);
  const auto complete = trainer::plan_all_layers(options);
  EXPECT_EQ(extended.parameters, complete.parameters);
  EXPECT_EQ(extended.parameters, nn::parameter_count(options.config));
  EXPECT_EQ(extended.parameter_bytes, complete.parameter_bytes);
  EXPECT_EQ(extended.state_bytes, complete.state_bytes);
  EXPECT_NEAR(extended.flops_per_device, complete.flops_per_device, 1e-6 * complete.flops_per_device);
  ASSERT_EQ(extended.collectives.size(), complete.collectives.size());
  for (std::size_t i = 0; i < complete.collectives.size(); ++i) {
    EXPECT_EQ(extended.collectives[i].opcode, complete.collectives[i].opcode);
    EXPECT_EQ(extended.collectives[i].bytes, complete.collectives[i].bytes) << complete.collectives[i].opcode;
    EXPECT_EQ(extended.collectives[i].values, complete.collectives[i].values) << complete.collectives[i].opcode;
  }
  const auto peak = static_cast<double>(complete.peak_bytes);
  EXPECT_NEAR(static_cast<double>(extended.peak_bytes), peak, 0.03 * peak);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, TrainingPlans, ::testing::Values(false, true));

TEST(TrainingPlans, ALargePresetIsPlannedForManyDevices) {
  trainer::TrainingPlanOptions options;
  options.config = nn::gpt2_config(nn::gpt2_preset("128b"));
  options.mesh = Mesh({{"fsdp", 512}});
  options.rows = 512;
  options.sequence = 64;
  const auto plan = trainer::plan_gpt2_training(options);
  EXPECT_EQ(plan.parameters, nn::parameter_count(options.config));
  EXPECT_NEAR(static_cast<double>(plan.parameter_bytes), 4.0 * static_cast<double>(plan.parameters) / 512,
              0.01 * static_cast<double>(plan.parameter_bytes));
  EXPECT_EQ(plan.state_bytes, 2 * plan.parameter_bytes);
  EXPECT_GT(plan.communication_seconds, 0);
}

// The MFU of a step in which no communication is hidden.
double utilization(std::int64_t devices, std::int64_t rows) {
  trainer::TrainingPlanOptions options = six_layers(true);
  options.config.n_embd = 96;
  options.mesh = Mesh({{"fsdp", devices}});
  options.rows = rows;
  const auto plan = trainer::plan_gpt2_training(options);
  return plan.nominal_pflop() / plan.slowest_seconds() / static_cast<double>(devices);
}

TEST(TrainingPlans, MoreDevicesAtAFixedBatchLowerTheUtilizationAndLargerBatchesRaiseIt) {
  EXPECT_GT(utilization(2, 32), utilization(4, 32));
  EXPECT_GT(utilization(4, 32), utilization(16, 32));
  EXPECT_LT(utilization(8, 8), utilization(8, 16));
  EXPECT_LT(utilization(8, 16), utilization(8, 64));
}

}  // namespace
}  // namespace tessera

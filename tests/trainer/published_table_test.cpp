// SPDX-License-Identifier: Apache-2.0
// The six published trainings of GPT-2 on TPU v4 and their modelled times.
#include "tessera/trainer/published_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tessera/nn/models/gpt2_presets.h"

namespace tessera::trainer {
namespace {

const PublishedTable& modelled_table() {
  static const PublishedTable table = model_published_table();
  return table;
}

TEST(PublishedTable, OneMachineFittedToTwoRowsGivesTheTimesOfTheOthers) {
  const PublishedTable& table = modelled_table();
  ASSERT_EQ(table.rows.size(), 6U);
  double errors_of_fitted = 0;
  for (const ModelledTraining& row : table.rows) {
    const double error = row.ratio() - 1;
    if (row.is_fitted) errors_of_fitted += error;
    EXPECT_LT(std::abs(error), row.is_fitted ? 0.15 : 0.10) << row.published.preset;
    // A chip of TPU v4 has 32 GiB.
    EXPECT_LT(row.plan.peak_bytes, *table.machine.memory_bytes()) << row.published.preset;
    // The table rounds its FLOPs to two or three digits, and the shapes have their parameters within 2%.
    // Those of 2b do not agree with its own configuration.
    const double tolerance = row.published.preset == "2b" ? 0.06 : 0.03;
    EXPECT_NEAR(row.plan.nominal_pflop(), row.published.pflop, tolerance * row.published.pflop) << row.published.preset;
  }
  EXPECT_NEAR(errors_of_fitted, 0, 1e-9);
  const double speed = table.machine.flops_per_second(DType::kBF16, WorkClass::kWideProduct);
  EXPECT_GT(speed, 0.4 * 275e12);
  EXPECT_LT(speed, 275e12);
}

double utilization_of(std::string_view preset, bool is_published) {
  const auto& rows = modelled_table().rows;
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const ModelledTraining& one) { return one.published.preset == preset; });
  return is_published ? row->published.utilization : row->utilization;
}

// Figure 1 of the document shows the MFU of the six rows over the size of the model and the number of cores. The fitted
// rows 16b and 20b contradict each other, so the model does not have the published maximum at 20b.
TEST(PublishedTable, TheUtilizationOverModelSizesAndCoresHasTheShapeOfTheFigure) {
  for (const bool is_published : {true, false}) {
    const auto of = [&](std::string_view preset) { return utilization_of(preset, is_published); };
    // From 8 to 512 cores and from 2 to 128 billion parameters, the MFU stays within ten points.
    for (const ModelledTraining& row : modelled_table().rows) {
      EXPECT_GT(of(row.published.preset), 0.35) << row.published.preset;
      EXPECT_LT(of(row.published.preset), 0.46) << row.published.preset;
    }
    // It rises from the smallest model to the larger ones, and falls again for the largest.
    EXPECT_LT(of("2b"), of("16b"));
    EXPECT_LT(of("2b"), of("32b"));
    EXPECT_LT(of("32b"), of("64b"));
    EXPECT_GT(of("64b"), of("128b"));
    EXPECT_GT(of("20b"), 0.415) << "a model of 22b in Megatron-LM has 41.5%";
  }
  for (const ModelledTraining& row : modelled_table().rows)
    EXPECT_NEAR(row.utilization, row.published.utilization, 0.06) << row.published.preset;
}

// The MFU of a step on chips of TPU v4 with the fitted speed, if no communication is hidden, as in bench/scaling.
double planned_utilization(const char* preset, std::int64_t chips, std::int64_t rows) {
  constexpr double kPeak = 275e12;
  constexpr double kPeta = 1e15;
  TrainingPlanOptions options;
  options.config = nn::gpt2_config(nn::gpt2_preset(preset));
  options.mesh = Mesh({{"fsdp", chips}});
  options.rows = rows;
  options.sequence = 1024;
  options.peak_flops = modelled_table().machine.flops_per_second(DType::kBF16, WorkClass::kWideProduct);
  options.bytes_per_second = 300e9;
  const TrainingPlan plan = plan_gpt2_training(options);
  return plan.nominal_pflop() * kPeta / plan.slowest_seconds() / static_cast<double>(chips) / kPeak;
}

TEST(PublishedTable, TheLargestModelFallsBehindBecauseItsChipsHaveHalfTheTokens) {
  const double of_64b = planned_utilization("64b", 128, 1024);
  const double of_128b = planned_utilization("128b", 256, 1024);
  const double with_as_many_tokens = planned_utilization("128b", 256, 2048);
  EXPECT_LT(of_128b, of_64b);
  EXPECT_NEAR(with_as_many_tokens, of_64b, 0.02);
}

}  // namespace
}  // namespace tessera::trainer

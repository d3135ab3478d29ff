// SPDX-License-Identifier: Apache-2.0
// The six published trainings of GPT-2 on TPU v4 and their modelled times.
#include "tessera/trainer/published_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::trainer {
namespace {

TEST(PublishedTable, OneMachineFittedToTwoRowsGivesTheTimesOfTheOthers) {
  const PublishedTable table = model_published_table();
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

}  // namespace
}  // namespace tessera::trainer

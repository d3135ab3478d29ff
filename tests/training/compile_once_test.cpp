// SPDX-License-Identifier: Apache-2.0
// When a step is compiled again, and when it is not.
#include <gtest/gtest.h>

#include <array>

#include "frontend/on_ranks.h"
#include "tessera/runtime/metrics/metrics.h"
#include "training/gpt2_training.h"

namespace tessera::testing {
namespace {

TrainingCase small(const std::string& mesh) {
  return {.mesh = mesh, .width = 12, .heads = 2, .layers = 1, .vocabulary = 20, .time = 6, .rows = 4};
}

void expect_one_compilation_per_shape(const std::string& mesh) {
  const int ranks = static_cast<int>(device_count_of(mesh));
  on_ranks(ranks, [&](int) {
    Training training(small(mesh));
    training.step(0);
    const std::int64_t first = lazy_counters().compilations;
    const double first_loss = training.step(1).item();
    EXPECT_EQ(lazy_counters().compilations, first) << "another batch";
    training.optimizer().set_learning_rate(0.25);
    training.step(2);
    EXPECT_EQ(lazy_counters().compilations, first) << "another learning rate";
    manual_seed(77);
    EXPECT_NE(training.step(1).item(), first_loss);
    EXPECT_EQ(lazy_counters().compilations, first) << "another seed";
    training.step(3, 8);
    EXPECT_EQ(lazy_counters().compilations, first + 1) << "more rows";
    training.step(4, 8);
    training.step(5);
    EXPECT_EQ(lazy_counters().compilations, first + 1) << "shapes seen before";
    EXPECT_EQ(metrics().counter_value("UncachedCompile"), lazy_counters().compilations);
  });
}

TEST(Compilation, HappensOncePerShapeOnOneRank) { expect_one_compilation_per_shape("data=1"); }
TEST(Compilation, HappensOncePerShapeOnAMesh) { expect_one_compilation_per_shape("fsdp=2"); }
TEST(Compilation, HappensOncePerShapeInDataParallel) { expect_one_compilation_per_shape("data=2"); }

}  // namespace
}  // namespace tessera::testing

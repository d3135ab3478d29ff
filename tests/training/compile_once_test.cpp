// SPDX-License-Identifier: Apache-2.0
// When a step is compiled again, and when it is not.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <utility>

#include "frontend/on_ranks.h"
#include "tessera/base/text.h"
#include "tessera/data/loader.h"
#include "tessera/data/padding.h"
#include "tessera/frontend/tensor/functions.h"
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

// Sample i has 1 to 23 tokens.
class Sentences final : public data::Source {
 public:
  [[nodiscard]] std::int64_t size() const override { return 60; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override {
    const std::int64_t count = 1 + i * i * 31 % 23;
    return {{"input_ids",
             Literal::from<std::int32_t>({count}, std::vector<std::int32_t>(static_cast<std::size_t>(count), 3))}};
  }
};

// Runs a step for each batch of the collator. Returns the number of compilations and that of different lengths.
std::pair<std::int64_t, std::int64_t> compilations_with(const data::PaddingOptions& options, const Mesh& mesh) {
  data::Loader loader(std::make_shared<Sentences>(), {.batch_size = 2,
                                                      .collator = std::make_shared<data::PaddingCollator>(options),
                                                      .mesh = mesh,
                                                      .input_sharding = PartitionSpec{"data"}});
  const Tensor table = full({5, 4}, 0.5);
  mark_step();
  const std::int64_t before = lazy_counters().compilations;
  std::set<std::int64_t> lengths;
  for (const data::Batch& batch : loader) {
    lengths.insert(batch.field("input_ids").type.dim(1));
    const Tensor mask = batch.tensor("attention_mask").to(DType::kF32).unsqueeze(2);
    const Tensor result = sum(embedding(table, batch.tensor("input_ids")) * mask);
    mark_step();
  }
  return {lazy_counters().compilations - before, isize(lengths)};
}

TEST(Compilation, HappensAtMostOncePerLengthBucket) {
  const Mesh mesh({{"data", 2}});
  on_ranks(2, [&](int) {
    const auto [bounded, buckets] = compilations_with({.length_buckets = {8, 16, 24}}, mesh);
    EXPECT_EQ(buckets, 3);
    EXPECT_EQ(bounded, 3);
    const auto [unbounded, lengths] = compilations_with({}, mesh);
    EXPECT_EQ(lengths, 8);
    EXPECT_EQ(unbounded, 8);
  });
}

}  // namespace
}  // namespace tessera::testing

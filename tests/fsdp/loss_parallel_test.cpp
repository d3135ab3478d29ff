// SPDX-License-Identifier: Apache-2.0
// Cross entropy over a sharded vocabulary, and linear layer and cross entropy in one.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/nn/linear_cross_entropy.h"

namespace tessera {
namespace {

struct HeadCase {
  std::string name;
  std::string mesh = "model=1";
  PartitionSpec weight{{}, {}};
  PartitionSpec rows{{}, {}};
  std::int64_t chunks = 1;
  bool with_bias = false;
  double smoothing = 0;
};
void PrintTo(const HeadCase& head, std::ostream* out) { *out << head.name; }

constexpr std::int64_t kBatch = 5, kPositions = 7, kWidth = 6, kClasses = 13;

std::vector<double> waves(std::int64_t count, double step) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(std::sin(step * static_cast<double>(i) + 0.3));
  return out;
}

struct HeadResult {
  double loss = 0;
  std::vector<double> d_hidden, d_weight, d_bias;
};

HeadResult head_on_this_rank(const HeadCase& head) {
  const Mesh mesh = Mesh::parse(head.mesh);
  set_default_mesh(mesh);
  Tensor hidden = Tensor::from<double>({kBatch, kPositions, kWidth}, waves(kBatch * kPositions * kWidth, 0.7));
  Tensor weight = Tensor::from<double>({kClasses, kWidth}, waves(kClasses * kWidth, 1.3));
  Tensor bias = Tensor::from<double>({kClasses}, waves(kClasses, 2.1));
  std::vector<std::int32_t> ids;
  for (int i = 0; i < kBatch * kPositions; ++i) ids.push_back(i % 6 == 4 ? -100 : (i * 5) % 13);
  const Tensor labels = Tensor::from<std::int32_t>({kBatch, kPositions}, ids);
  mark_sharding(weight, mesh, head.weight);
  mark_sharding(labels, mesh, head.rows);
  for (Tensor* each : {&hidden, &weight, &bias}) each->set_requires_grad();
  nn::LinearCrossEntropyOptions options{.chunks = head.chunks, .label_smoothing = head.smoothing};
  if (head.with_bias) options.bias = bias;
  const Tensor loss = nn::linear_cross_entropy(hidden, weight, labels, options);
  loss.backward();
  HeadResult out;
  out.d_hidden = hidden.grad().to_vector<double>();
  out.d_weight = weight.grad().to_vector<double>();
  if (head.with_bias) out.d_bias = bias.grad().to_vector<double>();
  out.loss = loss.item();
  return out;
}

HeadResult head_of(const HeadCase& head) {
  HeadResult out;
  std::mutex guard;
  on_ranks(static_cast<int>(Mesh::parse(head.mesh).device_count()), [&](int rank) {
    HeadResult mine = head_on_this_rank(head);
    const std::lock_guard lock(guard);
    if (rank == 0) out = std::move(mine);
  });
  return out;
}

void expect_equal_values(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-9) << i;
}

class LinearCrossEntropy : public ::testing::TestWithParam<HeadCase> {};

TEST_P(LinearCrossEntropy, EqualsTheLossOfCompleteLogitsOnOneRank) {
  HeadCase one;
  one.with_bias = GetParam().with_bias;
  one.smoothing = GetParam().smoothing;
  const HeadResult expected = head_of(one);
  const HeadResult got = head_of(GetParam());
  EXPECT_NEAR(got.loss, expected.loss, 1e-9);
  expect_equal_values(got.d_hidden, expected.d_hidden);
  expect_equal_values(got.d_weight, expected.d_weight);
  expect_equal_values(got.d_bias, expected.d_bias);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, LinearCrossEntropy,
    ::testing::Values(
        HeadCase{.name = "ChunksOnOneRank", .chunks = 3, .with_bias = true},
        HeadCase{.name = "MoreChunksThanPositions", .chunks = 50},
        HeadCase{.name = "Vocabulary3", .mesh = "model=3", .weight = {"model", {}}},
        HeadCase{
            .name = "Vocabulary4Chunks", .mesh = "model=4", .weight = {"model", {}}, .chunks = 2, .with_bias = true},
        HeadCase{.name = "Rows2Vocabulary3Chunks",
                 .mesh = "data=2,model=3",
                 .weight = {"model", {}},
                 .rows = {"data", {}},
                 .chunks = 4},
        HeadCase{.name = "Rows6Chunks", .mesh = "data=6", .rows = {"data", {}}, .chunks = 2},
        HeadCase{.name = "SmoothedChunks", .chunks = 3, .smoothing = 0.2},
        HeadCase{.name = "SmoothedVocabulary4", .mesh = "model=4", .weight = {"model", {}}, .smoothing = 0.2},
        HeadCase{.name = "SmoothedRows2Vocabulary3Chunks",
                 .mesh = "data=2,model=3",
                 .weight = {"model", {}},
                 .rows = {"data", {}},
                 .chunks = 4,
                 .with_bias = true,
                 .smoothing = 0.1}),
    [](const auto& info) { return info.param.name; });

TEST(LinearCrossEntropy, EqualsCrossEntropyOfTheLogits) {
  const FreshRank rank;
  const Tensor hidden = Tensor::from<double>({kPositions, kWidth}, waves(kPositions * kWidth, 0.7));
  const Tensor weight = Tensor::from<double>({kClasses, kWidth}, waves(kClasses * kWidth, 1.3));
  const Tensor labels = Tensor::from<std::int32_t>({kPositions}, {3, 1, -100, 12, 0, 5, 5});
  const Tensor logits = dot(hidden, weight, {.lhs_contracting = {1}, .rhs_contracting = {1}});
  EXPECT_NEAR(nn::linear_cross_entropy(hidden, weight, labels, {.chunks = 3}).item(),
              cross_entropy(logits, labels).item(), 1e-12);
  EXPECT_NEAR(nn::linear_cross_entropy(hidden, weight, labels, {.reduction = nn::LossReduction::kSum}).item(),
              6 * cross_entropy(logits, labels).item(), 1e-12);
  EXPECT_NEAR(nn::linear_cross_entropy(hidden, weight, labels, {.chunks = 3, .label_smoothing = 0.2}).item(),
              nn::cross_entropy(logits, labels, {.label_smoothing = 0.2}).item(), 1e-12);
}

// The step of a head alone, for plans: 512 rows, 4096 classes.
constexpr std::int64_t kManyRows = 512, kManyClasses = 4096, kNarrow = 32;
StepPlan plan_of_head(std::int64_t devices, const PartitionSpec& of_weight, std::int64_t chunks, double smoothing = 0) {
  plan_for_devices(devices);
  const Mesh mesh({{"model", devices}});
  Tensor hidden = Tensor::abstract(Type::array(DType::kF32, {kManyRows, kNarrow}), "hidden");
  Tensor weight = Tensor::abstract(Type::array(DType::kF32, {kManyClasses, kNarrow}), "weight");
  const Tensor labels = Tensor::abstract(Type::array(DType::kS32, {kManyRows}), "labels");
  mark_sharding(weight, mesh, of_weight);
  hidden.set_requires_grad();
  weight.set_requires_grad();
  nn::linear_cross_entropy(hidden, weight, labels, {.chunks = chunks, .label_smoothing = smoothing}).backward();
  return plan_step();
}

std::int64_t bytes_of_collectives(double smoothing) {
  const FreshRank rank;
  const StepPlan plan = plan_of_head(4, {"model", {}}, 1, smoothing);
  std::int64_t bytes = 0;
  for (const auto& note : plan.partitioned.notes) {
    EXPECT_NE(note.opcode, "all-gather") << note.reason;
    bytes += note.bytes;
  }
  return bytes;
}

TEST(LossParallel, ExchangesNumbersOfRowsAndNeverLogits) {
  const std::int64_t bytes = bytes_of_collectives(0);
  // Maxima, sums and picked logits of the rows, and the gradient of the hidden values.
  const std::int64_t all_reduced = 4 * kManyRows * 4 + kManyRows * kNarrow * 4;
  EXPECT_LE(bytes, 2 * all_reduced);
  EXPECT_LT(2 * all_reduced, kManyRows * kManyClasses * 4 / 8);  // far below the logits
  EXPECT_EQ(bytes_of_collectives(0.1), bytes);                   // smoothed labels are in the same sum
}

TEST(LinearCrossEntropyPlan, NeverHoldsTheLogits) {
  const std::int64_t logits = kManyRows * kManyClasses * 4;
  const auto arena = [](std::int64_t chunks, double smoothing = 0) {
    const FreshRank rank;
    const StepPlan plan = plan_of_head(1, {{}, {}}, chunks, smoothing);
    return execution_stats(plan.partitioned.program).peak_bytes_per_device;
  };
  EXPECT_GT(arena(1), logits);
  EXPECT_LT(arena(16), logits / 3);
  EXPECT_LT(arena(16, 0.1), logits / 3);
}

TEST(LinearCrossEntropy, ErrorsNameTheShapes) {
  const FreshRank rank;
  const Tensor hidden = Tensor::zeros(Type::array(DType::kF32, {3, 4}));
  const Tensor labels = Tensor::zeros(Type::array(DType::kS32, {3}));
  try {
    nn::linear_cross_entropy(hidden, Tensor::zeros(Type::array(DType::kF32, {4, 5})), labels);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "linear_cross_entropy needs hidden [..., d] and weight [classes, d], got f32[3,4] and f32[4,5]");
  }
}

}  // namespace
}  // namespace tessera

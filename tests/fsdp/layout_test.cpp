// SPDX-License-Identifier: Apache-2.0
// One model gives the same losses and gradients on many meshes: with dropout, sizes of batch, vocabulary and heads that
// do not divide evenly, a tied head, three units, clipping and AdamW.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/on_ranks.h"
#include "support/sanitizers.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kTime = 6;
constexpr int kSteps = 3;

nn::GPT2Config small() {
  nn::GPT2Config config;
  config.vocab_size = 13;
  config.n_positions = kTime;
  config.n_embd = 12;
  config.n_layer = 3;
  config.n_head = 3;
  config.dtype = DType::kF64;
  config.initializer_range = 0.2;
  return config;
}

struct Layout {
  std::string mesh;
  bool fsdp = false;
  bool tensor_parallel = false;
  [[nodiscard]] std::string name() const {
    return mesh + (fsdp ? " fsdp" : "") + (tensor_parallel ? " tensor-parallel" : "");
  }
};
struct Course {
  std::vector<double> losses;
  std::vector<std::vector<double>> gradients;  // of the last step, for each parameter
};

Tensor batch_at(const Mesh& mesh, int step) {
  std::vector<std::int32_t> values;
  for (int i = 0; i < kRows * kTime; ++i) values.push_back((7 * i + 3 * step + i * i / 5) % 13);
  const Tensor tokens = Tensor::from<std::int32_t>({kRows, kTime}, values);
  SpecEntry rows;
  for (const auto& axis : mesh.axes())
    if (axis.name != "model") rows.push_back(axis.name);
  if (!rows.empty()) mark_sharding(tokens, mesh, PartitionSpec({PartitionSpec::Entry(rows), PartitionSpec::Entry()}));
  return tokens;
}

Course course_on_this_rank(const Layout& layout) {
  const Mesh mesh = Mesh::parse(layout.mesh);
  set_default_mesh(mesh);
  manual_seed(5);
  nn::GPT2LMHeadModel model(small());
  if (layout.tensor_parallel) nn::shard_tensor_parallel(model, mesh, "model");
  if (layout.fsdp) fully_shard(model, {.mesh = mesh});
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 1e-3, .weight_decay = 0.1});
  Course out;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const Tensor tokens = batch_at(mesh, step);
    const Tensor loss = model(tokens, tokens);
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    mark_step();
    out.losses.push_back(loss.item());
  }
  std::vector<Tensor> gradients;
  for (const auto& parameter : model.parameters()) gradients.push_back(parameter.grad());
  for (const auto& literal : read_all(gradients))
    out.gradients.emplace_back(literal.data<double>().begin(), literal.data<double>().end());
  return out;
}

Course course_of(const Layout& layout) {
  Course out;
  std::mutex guard;
  on_ranks(static_cast<int>(Mesh::parse(layout.mesh).device_count()), [&](int rank) {
    Course mine = course_on_this_rank(layout);
    const std::lock_guard lock(guard);
    if (rank == 0) out = std::move(mine);
  });
  return out;
}

class LayoutInvariance : public ::testing::TestWithParam<Layout> {};

TEST_P(LayoutInvariance, LossesAndGradientsEqualThoseOfOneRank) {
  static const Course expected = course_of({"data=1"});
  const Course course = course_of(GetParam());
  ASSERT_EQ(course.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(course.losses[i], expected.losses[i], 1e-9 * std::fabs(expected.losses[i])) << "step " << i;
  for (std::size_t p = 0; p < expected.gradients.size(); ++p) {
    ASSERT_EQ(course.gradients[p].size(), expected.gradients[p].size());
    for (std::size_t i = 0; i < expected.gradients[p].size(); ++i)
      ASSERT_NEAR(course.gradients[p][i], expected.gradients[p][i], 1e-10) << "parameter " << p << " element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, LayoutInvariance,
                         ::testing::ValuesIn(tessera::testing::cases_of<Layout>(
                             {Layout{"data=2"}, Layout{"fsdp=3", true}, Layout{"model=2", false, true},
                              Layout{"data=2,model=2", true, true}, Layout{"data=2,fsdp=2", true},
                              Layout{"data=2,model=3", false, true}, Layout{"fsdp=3,model=2", true, true}})),
                         [](const auto& info) {
                           std::string name = info.param.name();
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

TEST(FsdpUnits, GatheredBytesAreThoseOfTheGatheredShardInTheComputeType) {
  const FreshRank rank;
  plan_for_devices(6);
  const Mesh mesh({{"fsdp", 2}, {"model", 3}});
  nn::Linear layer(3, 6, {.bias = false});
  mark_sharding(layer.weight(), mesh, {"model", {}});
  FsdpOptions options{.mesh = mesh};
  options.mixed_precision.param_dtype = DType::kBF16;
  const auto units = fully_shard(layer, options);
  EXPECT_EQ(units.front().elements, 18);
  EXPECT_EQ(units.front().bytes, 18 / 3 * 2);
  EXPECT_EQ(units.front().bytes_per_device, 18 / 3 / 2 * 4);
}

TEST(FullyShardedDataParallel, ConvertsFloatInputsToTheTypeOfTheComputation) {
  const FreshRank rank;
  nn::Linear layer(3, 6);
  FsdpOptions options{.mesh = Mesh({{"fsdp", 1}})};
  options.compute_dtype = DType::kBF16;
  FullyShardedDataParallel wrapped(layer, options);
  EXPECT_EQ(wrapped(full({2, 3}, 1.0)).dtype(), DType::kBF16);
  options.mixed_precision.cast_forward_inputs = false;
  EXPECT_EQ(cast_input(full({2, 3}, 1.0), options).dtype(), DType::kF32);
}

// A rank stores only its shards, and no gradient is all-reduced.
TEST(FsdpStep, StateIsShardedAndGradientsAreReduceScattered) {
  const FreshRank rank;
  plan_for_devices(4);
  const Mesh mesh({{"fsdp", 4}});
  nn::GPT2Config config = small();
  config.vocab_size = 16, config.n_embd = 16, config.n_head = 4, config.n_positions = 8;
  nn::GPT2LMHeadModel model(config);
  const auto units = fully_shard(model, {.mesh = mesh});
  optim::AdamW optimizer(model.parameters(), {});
  const Tensor tokens = Tensor::abstract(Type::array(DType::kS32, {8, 8}), "tokens");
  mark_sharding(tokens, mesh, {"fsdp", {}});
  model(tokens, tokens).backward();
  optimizer.step();
  optimizer.zero_grad();
  const StepPlan plan = plan_step();
  for (const auto& unit : units) EXPECT_LE(unit.bytes_per_device * 4, unit.bytes + 4 * 3 * 16 * 8) << unit.name;
  for (const auto& note : plan.partitioned.notes) {
    if (note.opcode != "all-reduce") continue;
    EXPECT_LE(note.bytes, 64) << note.reason;  // scalars only
  }
  std::int64_t scattered = 0;
  for (const auto& note : plan.partitioned.notes) scattered += note.opcode == "reduce-scatter" ? 1 : 0;
  EXPECT_EQ(scattered, static_cast<std::int64_t>(model.parameters().size()));
}

// Sharding columns, then rows needs one sum in the forward pass and one in the backward pass.
TEST(TensorParallel, AMegatronMlpHasOneAllReduceForwardAndOneBackward) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"model", 2}});
  nn::GPT2Config config = small();
  config.resid_pdrop = 0;
  nn::GPT2MLP mlp(config);
  mark_sharding(mlp.c_fc().weight(), mesh, {{}, "model"});
  mark_sharding(mlp.c_fc().bias(), mesh, {"model"});
  mark_sharding(mlp.c_proj().weight(), mesh, {"model", {}});
  Tensor x = Tensor::abstract(Type::array(DType::kF64, {4, 5, 12}), "x");
  x.set_requires_grad();
  const Tensor y = mlp(x);
  sum(square(y)).backward();
  const StepPlan plan = plan_step();
  std::int64_t sums = 0;
  for (const auto& note : plan.partitioned.notes) {
    EXPECT_TRUE(note.opcode == "all-reduce" || note.opcode == "reduce-scatter" || note.opcode == "all-gather")
        << note.opcode;
    sums += note.opcode == "all-reduce" || note.opcode == "reduce-scatter" ? 1 : 0;
  }
  EXPECT_EQ(sums, 2);
}

}  // namespace
}  // namespace tessera

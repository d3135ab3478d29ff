// SPDX-License-Identifier: Apache-2.0
// A step as three programs (forward, backward, update) computes what it computes as one, on many meshes: with dropout,
// uneven sizes, a tied head, FSDP units, clipping, two backward passes and buffers that the forward pass changes.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/on_ranks.h"
#include "support/sanitizers.h"
#include "tessera/frontend/compile/typed_function.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

constexpr std::int64_t kBatchRows = 5;
constexpr std::int64_t kBlock = 7;

nn::GPT2Config two_layers() {
  nn::GPT2Config config;
  config.vocab_size = 13;
  config.n_positions = kBlock;
  config.n_embd = 12;
  config.n_layer = 2;
  config.n_head = 3;
  config.dtype = DType::kF64;
  config.initializer_range = 0.2;
  return config;
}

Tensor tokens_at(const Mesh& mesh, int step) {
  std::vector<std::int32_t> values;
  for (int i = 0; i < kBatchRows * kBlock; ++i) values.push_back((5 * i + 3 * step + i * i / 4) % 13);
  Tensor tokens = Tensor::from<std::int32_t>({kBatchRows, kBlock}, values);
  mark_sharding(tokens, mesh, {"data", {}});
  return tokens;
}

struct Training {
  std::string mesh;
  bool fsdp = false;
  bool tensor_parallel = false;
};

// Returns the losses of four steps with two backward passes each. The last two steps read the tokens of the first two.
std::vector<double> losses_on_this_rank(const Training& training, int graphs) {
  const Mesh mesh = Mesh::parse(training.mesh);
  set_default_mesh(mesh);
  manual_seed(5);
  nn::GPT2LMHeadModel model(two_layers());
  if (training.tensor_parallel) nn::shard_tensor_parallel(model, mesh, "model");
  if (training.fsdp) fully_shard(model, {.mesh = mesh});
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 1e-2, .weight_decay = 0.1});
  Tensor count = Tensor::from<double>({}, {0});
  auto step = compile(
      [&](const Tensor& first, const Tensor& second) {
        count.assign(count + 1.0);  // in the forward pass
        const Tensor loss = model(first, first);
        loss.backward();
        const Tensor more = model(second, second);
        (more * 0.5).backward();
        optim::clip_grad_norm(model.parameters(), 1.0);
        optimizer.step();
        optimizer.zero_grad();
        return std::pair(loss, more);
      },
      {.name = "train", .graphs = graphs});
  std::vector<double> out;
  for (int i = 0; i < 4; ++i) {
    const auto [loss, more] = step(tokens_at(mesh, 2 * (i % 2)), tokens_at(mesh, 2 * (i % 2) + 1));
    out.push_back(loss.item());
    out.push_back(more.item());
  }
  EXPECT_EQ(count.item(), 4);
  EXPECT_EQ(step.form_count(), 1);
  return out;
}

std::vector<double> losses_of(const Training& training, int graphs) {
  std::vector<double> out;
  std::mutex guard;
  on_ranks(static_cast<int>(Mesh::parse(training.mesh).device_count()), [&](int rank) {
    std::vector<double> mine = losses_on_this_rank(training, graphs);
    const std::lock_guard lock(guard);
    if (rank == 0) out = std::move(mine);
  });
  return out;
}

class ThreeGraphs : public ::testing::TestWithParam<Training> {};

TEST_P(ThreeGraphs, TrainAsOneGraphDoes) {
  const std::vector<double> expected = losses_of(GetParam(), 1);
  const std::vector<double> losses = losses_of(GetParam(), 3);
  ASSERT_EQ(losses.size(), 8U);
  EXPECT_LT(losses[4], losses[0]);  // the same tokens, two updates later
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 1e-12 * std::fabs(expected[i])) << "loss " << i;
}

INSTANTIATE_TEST_SUITE_P(Meshes, ThreeGraphs,
                         ::testing::ValuesIn(tessera::testing::cases_of<Training>(
                             {Training{"data=1"}, Training{"data=2", true}, Training{"data=3"},
                              Training{"data=2,model=2", false, true}, Training{"data=2,model=3", true, true}})));

TEST(ThreeGraphs, RunAProgramForEachPart) {
  const FreshRank rank;
  Tensor w = Tensor::from<double>({3}, {1, 2, 3});
  w.set_requires_grad();
  const auto runs_of = [&](int graphs) {
    auto step = compile(
        [&](const Tensor& x) {
          const Tensor loss = sum(tanh(w * x));
          loss.backward();
          w.assign(w.detach() - w.grad() * 0.1);
          w.zero_grad();
          return loss;
        },
        {.graphs = graphs});
    const std::int64_t before = metrics().counter_value("UncachedCompile").value_or(0);
    step(Tensor::from<double>({3}, {0.5, 0.25, 0.125}));
    return metrics().counter_value("UncachedCompile").value_or(0) - before;
  };
  EXPECT_EQ(runs_of(1), 1);
  EXPECT_EQ(runs_of(3), 3);
}

TEST(ThreeGraphs, NeedABackwardPass) {
  const FreshRank rank;
  auto forward = compile([](const Tensor& x) { return x * 2.0; }, {.graphs = 3});
  try {
    forward(Tensor::from<double>({2}, {1, 2}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "compile: graphs = 3 divides a step at backward(), which the function does not call");
  }
  EXPECT_THROW((compile([](const Tensor& x) { return x * 2.0; }, {.graphs = 2})(Tensor::from<double>({1}, {1}))),
               Error);
}

}  // namespace
}  // namespace tessera

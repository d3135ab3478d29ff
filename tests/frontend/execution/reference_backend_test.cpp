// SPDX-License-Identifier: Apache-2.0
// PJRT_DEVICE=REFERENCE: programs of the front end have the results of the kernels, which do not run.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "support/error_of.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

void use_backend(std::string_view name) { options().set("PJRT_DEVICE", name); }

std::vector<float> waves(std::int64_t count) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(std::sin(1.0 + 1.7 * static_cast<double>(i))));
  return out;
}

void append(std::vector<double>& out, const Tensor& tensor) {
  for (const float value : tensor.to_vector<float>()) out.push_back(value);
}

// Losses and parameters of three steps. The rows are sharded over one axis and the layers over the other one.
std::vector<double> train_on(std::string_view backend, std::int64_t model_axis) {
  use_backend(backend);
  manual_seed(3);
  const Mesh mesh({{"data", device_count() / model_axis}, {"model", model_axis}});
  nn::Linear first(6, 8);
  nn::Linear second(8, 3);
  mark_sharding(first.weight(), mesh, {"model", {}});
  mark_sharding(second.weight(), mesh, {{}, "model"});
  auto parameters = first.parameters();
  for (const auto& parameter : second.parameters()) parameters.push_back(parameter);
  optim::AdamW optimizer(parameters, {.learning_rate = 0.05});
  std::vector<double> out;
  for (int step = 0; step < 3; ++step) {
    const Tensor x = Tensor::from<float>({4, 6}, waves(24));
    mark_sharding(x, mesh, {"data", {}});
    const Tensor hidden = dropout(gelu(first(x)), 0.25);
    const Tensor loss = cross_entropy(second(hidden), Tensor::from<std::int32_t>({4}, {0, 2, 1, 2}));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
    append(out, loss);
  }
  for (const Tensor& parameter : parameters) append(out, parameter);
  return out;
}

void expect_values_near(const std::vector<double>& got, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], bound * (1 + std::abs(expected[i]))) << "value " << i;
}

// Each backend has its own ranks, because a rank keeps the programs that it has compiled.
std::vector<double> trained(std::string_view backend, int ranks, int model_axis) {
  std::vector<double> out;
  on_ranks(ranks, [&](int rank) {
    const auto values = train_on(backend, model_axis);
    if (rank == 0) out = values;
  });
  return out;
}

TEST(ReferenceBackend, TrainsAsTheKernelsDoOnOneRankAndOnSeveral) {
  const std::vector<std::pair<int, int>> meshes = {{1, 1}, {2, 1}, {2, 2}, {4, 2}};
  for (const auto& [ranks, model_axis] : meshes)
    expect_values_near(trained("REFERENCE", ranks, model_axis), trained("CPU", ranks, model_axis), 1e-4);
}

TEST(ReferenceBackend, TrainsATransformer) {
  const auto losses = [](std::string_view backend) {
    const FreshRank rank;
    use_backend(backend);
    manual_seed(1);
    nn::GPT2Config config;
    config.vocab_size = 17;
    config.n_positions = 8;
    config.n_embd = 12;
    config.n_layer = 1;
    config.n_head = 3;
    nn::GPT2LMHeadModel model(config);
    optim::AdamW optimizer(model.parameters(), {.learning_rate = 0.01});
    std::vector<double> out;
    for (int step = 0; step < 2; ++step) {
      const Tensor ids = Tensor::from<std::int32_t>({2, 5}, {1, 5, 3, 16, 0, 2, 2, 7, 9, 4});
      const Tensor loss = model(ids, ids);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      mark_step();
      append(out, loss);
    }
    return out;
  };
  expect_values_near(losses("REFERENCE"), losses("CPU"), 1e-4);
}

TEST(ReferenceBackend, RunsLoopsBranchesAndCompiledFunctions) {
  on_ranks(2, [](int) {
    use_backend("REFERENCE");
    const Mesh mesh({{"data", 2}});
    const Tensor x = Tensor::from<float>({4}, {1, 2, 3, 4});
    mark_sharding(x, mesh, {"data"});
    CompiledFunction run = compile([](const std::vector<Tensor>& in) {
      const Tensor looped = fori_loop(
          0, 3, [](const Tensor&, const Tensor& v) { return v + sum(v); }, in[0]);
      return std::vector{cond(
          sum(looped) > 0.0, [&] { return looped * 2.0; }, [&] { return looped; })};
    });
    for (int call = 0; call < 2; ++call)
      EXPECT_EQ(run({x}).front().to_vector<float>(), (std::vector<float>{622, 624, 626, 628}));
  });
}

TEST(ReferenceBackend, SaysWhatDoesNotApply) {
  on_ranks(2, [](int) {
    use_backend("REFERENCE");
    const Tensor x = Tensor::from<float>({4}, {1, 2, 3, 4});
    mark_sharding(x, Mesh({{"data", 2}}), {"data"});
    const Tensor y = sum(square(x)) * x;
    mark_step({.wait = true});
    EXPECT_EQ(metrics().metric_data("ExecuteTime")->total_samples, 1);
    EXPECT_GT(metrics().counter_value("CollectiveBytes::all-gather").value_or(0), 0);
    EXPECT_EQ(metrics().counter_value("FlopsExecuted").value_or(0), 0);
    EXPECT_TRUE(executed_fallback_ops().empty());
    const CompiledProgram& program = compiled_programs().back();
    EXPECT_EQ(program.memory.arguments, 8);
    EXPECT_EQ(program.memory.arena, 0);
    const auto executable = program.executable.lock();
    executable->set_profiling(true);
    EXPECT_TRUE(executable->profile().empty());
    EXPECT_EQ(metrics().counter_value("DonationCopy").value_or(0), 0);
    EXPECT_EQ(testing::error_of([&] { executable->run({}); }),
              fmt::format("{}: takes 1 arguments, got 0", executable->name()));
  });
}

}  // namespace
}  // namespace tessera

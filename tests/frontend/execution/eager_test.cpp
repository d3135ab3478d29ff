// SPDX-License-Identifier: Apache-2.0
// Eager mode: each op runs when it is traced, and steps have the results of lazy mode.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/execution/sync_counts.h"
#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "support/error_of.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/execution/eager_mode.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/sharding/placements.h"
#include "tessera/frontend/sharding/shard_map.h"
#include "tessera/frontend/tracing/dump.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/layers.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/executable/buffer.h"

namespace tessera {
namespace {

using experimental::eager_mode;
using experimental::EagerModeContext;
using experimental::is_eager_mode;
using Tensors = std::vector<Tensor>;

// ---- the mode -----------------------------------------------------------------------------------------------------------

TEST(Eager, EachOpRunsWhenItIsTraced) {
  const FreshRank rank;
  const EagerModeContext eager(true);
  const Tensor x = Tensor::from<float>({3}, {1, 2, 3});
  Tensor y, z;
  const Counts first = increase([&] { y = tanh(x); });
  EXPECT_EQ(first, (Counts{{"eager", 1}}));
  EXPECT_TRUE(y.is_materialized());
  EXPECT_EQ(increase([&] { z = y * y; }), (Counts{{"eager", 1}}));
  EXPECT_EQ(increase([&] { (void)z.to_vector<float>(); }), Counts{});
  EXPECT_EQ(increase([&] { mark_step(); }), Counts{});
  EXPECT_FLOAT_EQ(z.to_vector<float>()[1], std::tanh(2.0F) * std::tanh(2.0F));
  EXPECT_EQ(lazy_counters().executions, 2);
}

TEST(Eager, AProgramContainsOnlyTheOp) {
  const FreshRank rank;
  const EagerModeContext eager(true);
  const Tensor y = tanh(exp(Tensor::from<float>({3}, {1, 2, 3})));
  const auto& programs = compiled_programs();
  ASSERT_EQ(programs.size(), 2U);
  EXPECT_NE(programs[0].reason.find("exponential at eager_test.cpp:"), std::string::npos) << programs[0].reason;
  EXPECT_NE(programs[1].reason.find("tanh at eager_test.cpp:"), std::string::npos) << programs[1].reason;
  EXPECT_EQ(programs[1].global.entry_computation().size(), 3);  // the parameter, the op, the tuple of results
  EXPECT_EQ(dump_ir({y}), "IR {\n  %0 = f32[3] xla::device_data(), device=xla:0, ROOT=0\n}\n");
}

TEST(Eager, TheModeIsThatOfTheInnermostScope) {
  const FreshRank rank;
  EXPECT_FALSE(is_eager_mode());
  {
    const EagerModeContext eager(true);
    EXPECT_TRUE(is_eager_mode());
    {
      const EagerModeContext lazy(false);
      EXPECT_FALSE(is_eager_mode());
      EXPECT_FALSE(exp(f64s({1})).is_materialized());
    }
    EXPECT_TRUE(exp(f64s({1})).is_materialized());
  }
  EXPECT_FALSE(is_eager_mode());
}

TEST(Eager, TheVariableSetsTheModeAtTheStart) {
  const FreshRank rank;
  options().set("XLA_USE_EAGER_DEBUG_MODE", "1");
  EXPECT_TRUE(is_eager_mode());
  EXPECT_TRUE(exp(f64s({1})).is_materialized());
  eager_mode(false);
  EXPECT_FALSE(exp(f64s({1})).is_materialized());
}

TEST(Eager, SwitchingItOnRunsWhatWasTraced) {
  const FreshRank rank;
  const Tensor y = exp(f64s({0, 1}));
  EXPECT_FALSE(y.is_materialized());
  eager_mode(true);
  EXPECT_TRUE(y.is_materialized());
  EXPECT_EQ(y.to_vector<double>()[0], 1);
  EXPECT_EQ(lazy_counters().forced_reads, 0);
}

TEST(Eager, EqualOpsCompileOnce) {
  const FreshRank rank;
  const EagerModeContext eager(true);
  Tensor x = Tensor::from<float>({3}, {1, 2, 3});
  for (int i = 0; i < 5; ++i) x = tanh(x);
  EXPECT_EQ(lazy_counters().compilations, 1);
  EXPECT_EQ(lazy_counters().executions, 5);
}

// ---- training -----------------------------------------------------------------------------------------------------------

// Token and position classes, a normalization, dropout, and a head.
struct SmallModel {
  explicit SmallModel(DType dtype) : first(7, 11), second(11, 5) {
    for (const Tensor& tensor : parameters)
      if (dtype != DType::kF32) tensor.impl().compute_dtype = dtype;
  }
  nn::Linear first, second;
  Tensor table = variable<float>({13, 7}, numbers(13 * 7));
  Tensor scale = variable<float>({11}, numbers(11));
  Tensor shift = variable<float>({11}, numbers(11));
  std::vector<Tensor> parameters{first.weight(), first.bias(), second.weight(), second.bias(), table, scale, shift};

  static std::vector<float> numbers(std::int64_t count) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(static_cast<float>(std::sin(1.0 + 1.7 * static_cast<double>(i))));
    return out;
  }
  Tensor loss(const Tensor& ids, const Tensor& labels) {
    const Tensor hidden = layer_norm(first(embedding(table, ids)), scale, shift, 1e-5);
    return cross_entropy(second(dropout(gelu(hidden), 0.25)), labels);
  }
};

// The losses, gradients and parameters of three steps.
std::vector<Literal> train_small(bool eager, DType dtype) {
  const EagerModeContext mode(eager);
  manual_seed(5);
  SmallModel model(dtype);
  optim::AdamW optimizer(model.parameters, {.learning_rate = 0.05, .weight_decay = 0.1});
  Tensors kept;
  for (int step = 0; step < 3; ++step) {
    const Tensor ids = Tensor::from<std::int32_t>({6}, {1, 2, 12, 0, 1, 3 + step});
    const Tensor loss = model.loss(ids, Tensor::from<std::int32_t>({6}, {0, 1, 4, 2, 3, 1}));
    loss.backward();
    kept.push_back(loss);
    for (const Tensor& parameter : model.parameters) kept.push_back(parameter.grad());
    (void)optim::clip_grad_norm(model.parameters, 0.5);
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_EQ(loss.is_materialized(), eager);
    mark_step();
  }
  std::vector<Literal> out;
  for (const Tensor& tensor : kept) out.push_back(tensor.to_host());
  for (const Tensor& parameter : model.parameters) out.push_back(parameter.to_host());
  return out;
}

TEST(Eager, TrainingHasTheBitsOfLazyMode) {
  const FreshRank rank;
  const auto lazy = train_small(false, DType::kF32);
  const auto eager = train_small(true, DType::kF32);
  ASSERT_EQ(eager.size(), lazy.size());
  for (std::size_t i = 0; i < lazy.size(); ++i) EXPECT_EQ(eager[i], lazy[i]) << "value " << i;
}

// Lazy mode keeps bf16 values in f32 within a fused group. Without this, both modes round after every op.
TEST(Eager, TrainingInBf16HasTheBitsOfLazyModeWithoutExcessPrecision) {
  const FreshRank rank;
  options().set("TESSERA_EXCESS_PRECISION", "0");
  const auto lazy = train_small(false, DType::kBF16);
  const auto eager = train_small(true, DType::kBF16);
  ASSERT_EQ(eager.size(), lazy.size());
  for (std::size_t i = 0; i < lazy.size(); ++i) EXPECT_EQ(eager[i], lazy[i]) << "value " << i;
}

TEST(Eager, EveryOpOfTheBackwardPassAndTheUpdateIsAProgram) {
  const FreshRank rank;
  const EagerModeContext eager(true);
  Tensor w = variable<float>({2}, {1, 2});
  optim::SGD optimizer({w}, {.learning_rate = 0.5});
  Tensor loss = sum(square(w));
  const Counts backward = increase([&] { loss.backward(); });
  EXPECT_EQ(backward.size(), 1U);
  EXPECT_GT(backward.at("eager"), 1);
  EXPECT_TRUE(w.grad().is_materialized());
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(increase([&] { optimizer.step(); }).size(), 1U);
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(increase([&] { mark_step(); }), Counts{});
}

TEST(Eager, StepsKeepNoFormerValues) {
  const FreshRank rank;
  const EagerModeContext eager(true);
  Tensor w = variable<float>({1000}, std::vector<float>(1000, 1));
  optim::SGD optimizer({w}, {.learning_rate = 0.5, .momentum = 0.9});
  std::int64_t used = 0;
  for (int step = 0; step < 6; ++step) {
    sum(square(w)).backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
    if (step == 2) used = memory_info().used;
  }
  EXPECT_EQ(memory_info().used, used);
}

// ---- functions that are traced ------------------------------------------------------------------------------------------

TEST(Eager, ACompiledFunctionIsOneProgram) {
  const FreshRank rank;
  const EagerModeContext eager(true);
  Tensor w = variable<float>({2}, {1, 2});
  bool was_data = false;
  CompiledFunction step = compile([&](const Tensors& in) {
    const Tensor y = exp(in[0] * 2.0);
    was_data = was_data || y.is_materialized();
    w.assign(w - y);
    return Tensors{y + 1.0};
  });
  const Tensor before = w * 1.0;
  for (int call = 0; call < 3; ++call) {
    Tensor out;
    const Tensor x = Tensor::from<float>({2}, {0, 0});
    EXPECT_EQ(increase([&] { out = step({x}).front(); }), (Counts{{"compile", 1}}));
    EXPECT_EQ(out.to_vector<float>(), (std::vector<float>{2, 2}));
    EXPECT_TRUE((out * w).is_materialized());
  }
  EXPECT_FALSE(was_data);
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{-2, -1}));
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
  CompiledFunction switches = compile([](const Tensors& in) {
    eager_mode(false);
    return Tensors{in[0] * 2.0};
  });
  EXPECT_EQ(testing::error_of([&] { (void)switches({w}); }),
            "compile: the function calls eager_mode(); call it outside of the function");
}

TEST(Eager, ABranchAndALoopAreOneOpWithGradients) {
  const auto results = [](bool eager) {
    const FreshRank rank;
    const EagerModeContext mode(eager);
    const Tensor x = variable<float>({3}, {1, 2, 3});
    const Tensor w = variable<float>({3}, {3, 2, 1});
    bool was_data = false;
    const Tensor chosen = cond(
        sum(x) > 0.0,
        [&] {
          const Tensor y = x * w;
          was_data = was_data || y.is_materialized();
          return y;
        },
        [&] { return x; });
    EXPECT_EQ(chosen.is_materialized(), eager);
    const Tensor looped = fori_loop(
        0, 3, [&](const Tensor&, const Tensor& v) { return tanh(v * w); }, chosen);
    EXPECT_EQ(looped.is_materialized(), eager);
    sum(square(looped)).backward();
    EXPECT_FALSE(was_data);
    mark_step();
    return std::vector{looped.to_host(), x.grad().to_host(), w.grad().to_host()};
  };
  EXPECT_EQ(results(true), results(false));
}

// ---- several ranks ------------------------------------------------------------------------------------------------------

std::vector<float> train_sharded(bool eager) {
  const EagerModeContext mode(eager);
  manual_seed(3);
  const Mesh mesh({{"data", device_count()}});
  nn::Linear first(6, 8);
  nn::Linear second(8, 3);
  mark_sharding(first.weight(), mesh, {"data", {}});
  auto parameters = first.parameters();
  for (const auto& parameter : second.parameters()) parameters.push_back(parameter);
  optim::AdamW optimizer(parameters, {.learning_rate = 0.05});
  std::vector<Tensor> losses;
  for (int step = 0; step < 3; ++step) {
    const Tensor x = Tensor::from<float>({4, 6}, SmallModel::numbers(24));
    mark_sharding(x, mesh, {"data", {}});
    Tensor hidden = relu(first(x));
    mark_sharding(hidden, mesh, {"data", {}});
    hidden = distribute_tensor(hidden, mesh, {Replicate()});
    losses.push_back(mean(square(second(hidden) - 1.0)));
    losses.back().backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
  }
  std::vector<float> out;
  for (const auto& loss : losses) out.push_back(static_cast<float>(loss.item()));
  for (const auto& parameter : parameters)
    for (const float value : parameter.to_vector<float>()) out.push_back(value);
  return out;
}

TEST(Eager, SeveralRanksTrainAsInLazyMode) {
  for (const int ranks : {2, 4})
    on_ranks(ranks, [](int) {
      const auto lazy = train_sharded(false);
      const auto eager = train_sharded(true);
      ASSERT_EQ(eager.size(), lazy.size());
      for (std::size_t i = 0; i < lazy.size(); ++i)
        EXPECT_NEAR(eager[i], lazy[i], 1e-4 * (1 + std::abs(lazy[i]))) << "value " << i;
    });
}

TEST(Eager, ARegionOfDeviceCodeRunsWhenItsResultsLeave) {
  on_ranks(2, [](int) {
    const EagerModeContext eager(true);
    const Mesh mesh({{"data", 2}});
    bool was_data = false;
    const Tensor x = Tensor::from<float>({4}, {1, 2, 3, 4});
    const auto add_total = [&](const Tensor& part) {
      const Tensor total = psum(sum(part), "data") * 2.0 + part;
      was_data = was_data || total.is_materialized();
      return total;
    };
    const Tensor y = shard_map(add_total, mesh, {{"data"}}, {{"data"}})(x);
    EXPECT_FALSE(was_data);
    EXPECT_TRUE(y.is_materialized());
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{21, 22, 23, 24}));
  });
}

TEST(Eager, RanksThatTraceDifferentOpsFailAtTheFirstOne) {
  const std::string error = testing::error_of([] {
    on_ranks(2, [](int rank) {
      const EagerModeContext eager(true);
      const Tensor x = Tensor::from<float>({2}, {1, 2});
      (void)(rank == 0 ? tanh(x) : exp(x));
    });
  });
  for (const char* part :
       {"ranks diverge: rank 0 is at tanh at eager_test.cpp:", "rank 1 is at exponential at eager_test.cpp:"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

}  // namespace
}  // namespace tessera

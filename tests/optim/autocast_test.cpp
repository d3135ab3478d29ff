// SPDX-License-Identifier: Apache-2.0
// Element types in Autocast scopes, and training in f16 with loss scaling.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/autocast.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/grad_scaler.h"

namespace tessera {
namespace {

Tensor wave(const Dims& dims, double frequency) {
  std::vector<float> values(static_cast<std::size_t>(product(dims)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(frequency * static_cast<double>(i + 1)));
  return Tensor::from<float>(dims, values);
}

TEST(AutocastTest, ProductsAreLowerAndSoftmaxAndLossesAreFull) {
  const FreshRank rank;
  const Tensor x = wave({3, 5}, 0.7);
  const Tensor w = wave({5, 7}, 0.3);
  const Autocast scope;
  const Tensor product = matmul(x, w);
  EXPECT_EQ(product.dtype(), kBF16);
  EXPECT_EQ(einsum("ij,jk->ik", x, w).dtype(), kBF16);
  EXPECT_EQ(relu(product).dtype(), kBF16);
  EXPECT_EQ(softmax(product, -1).dtype(), kF32);
  EXPECT_EQ(exp(product).dtype(), kF32);
  EXPECT_EQ(pow(product, 0.3).dtype(), kF32);
  EXPECT_EQ(sum(product).dtype(), kF32);
  EXPECT_EQ(addmm(wave({7}, 1), x, w).dtype(), kBF16);
  EXPECT_EQ(log2(product).dtype(), kF32);
  EXPECT_EQ(normalize(product).dtype(), kF32);
  EXPECT_EQ(cdist(product, w.t().t()).dtype(), kF32);
  EXPECT_EQ(lerp(product, product, x.slice(1, 0, 1)).dtype(), kF32);  // the widest
  EXPECT_EQ(cross_entropy(product, Tensor::from<std::int32_t>({3}, {1, 2, 0})).dtype(), kF32);
  EXPECT_EQ((product + x.slice(1, 0, 1)).dtype(), kF32);  // the widest
  EXPECT_EQ(cat({product, wave({3, 2}, 1)}, 1).dtype(), kF32);
}

TEST(AutocastTest, OutsideOfAScopeAndForF64NothingChanges) {
  const FreshRank rank;
  const Tensor x = wave({3, 5}, 0.7);
  {
    const Autocast outer(kF16);
    EXPECT_EQ(matmul(x, x.t()).dtype(), kF16);
    {
      const Autocast inner(kBF16, false);
      EXPECT_EQ(matmul(x, x.t()).dtype(), kF32);
    }
    EXPECT_EQ(matmul(x.to(kF64), x.t().to(kF64)).dtype(), kF64);
    EXPECT_EQ(matmul(x, x.t()).dtype(), kF16);
  }
  EXPECT_EQ(matmul(x, x.t()).dtype(), kF32);
  EXPECT_THROW(Autocast{kF32}, Error);
}

TEST(AutocastTest, EveryFunctionIsInOneList) {
  std::size_t count = 0;
  for (const auto rule : {AutocastRule::kLower, AutocastRule::kFull, AutocastRule::kWidest}) {
    for (const std::string& name : autocast_functions(rule)) EXPECT_EQ(autocast_rule(name), rule) << name;
    count += autocast_functions(rule).size();
  }
  EXPECT_GT(count, 30U);
  EXPECT_FALSE(autocast_rule("relu").has_value());
}

// The gradient of a parameter that a product reads in bf16 is accumulated and stored in f32.
TEST(AutocastTest, GradientsHaveTheTypeOfTheParameter) {
  const FreshRank rank;
  Tensor w = wave({64, 1}, 0.3).set_requires_grad();
  const Tensor x = ones({512, 64});
  {
    const Autocast scope;
    sum(matmul(x, w)).backward();
  }
  mark_step();
  EXPECT_EQ(w.grad().dtype(), kF32);
  EXPECT_EQ(w.grad().to_vector<float>()[3], 512);
}

struct Losses {
  std::vector<double> values;
  std::int64_t skipped_steps = 0;
};

Losses losses_of(std::optional<DType> dtype, const std::string& mesh_text) {
  manual_seed(4);
  const Mesh mesh = Mesh::parse(mesh_text);
  Tensor w1 = wave({6, 32}, 0.37).set_requires_grad();
  Tensor w2 = wave({32, 5}, 0.71).set_requires_grad();
  w1.set_name("w1"), w2.set_name("w2");
  mark_sharding(w1, mesh, PartitionSpec(std::vector{PartitionSpec::Entry(), PartitionSpec::Entry(SpecEntry{"a"})}));
  const auto optimizer = optim::make_optimizer("adamw_torch", {{{w1, w2}}}, {.learning_rate = 0.01});
  optim::GradScaler scaler({.growth_interval = 5, .enabled = dtype == kF16});
  const Tensor x = wave({12, 6}, 0.9);
  const Tensor labels = Tensor::from<std::int32_t>({12}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1});
  Losses out;
  for (int step = 0; step < 40; ++step) {
    optimizer->zero_grad();
    const Autocast scope(dtype.value_or(kBF16), dtype.has_value());
    const Tensor loss = cross_entropy(matmul(tanh(matmul(x, w1)), w2), labels);
    scaler.scale(loss).backward();
    scaler.unscale(*optimizer);
    optim::clip_grad_norm({w1, w2}, 1.0);
    scaler.step(*optimizer);
    scaler.update();
    mark_step();
    out.values.push_back(loss.item());
  }
  // The scale grew until a gradient overflowed, which f16 does at 65504.
  out.skipped_steps = scaler.skipped_steps();
  EXPECT_EQ(out.skipped_steps > 0, dtype == kF16);
  return out;
}

TEST(AutocastTest, SixteenBitsLearnAsF32OnEveryMesh) {
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = losses_of({}, "a=1").values;
  }
  EXPECT_LT(expected.back(), 0.7 * expected.front());
  for (const DType dtype : {kBF16, kF16}) {
    for (const int ranks : {1, 2, 3}) {
      on_ranks(ranks, [&](int) {
        const Losses losses = losses_of(dtype, "a=" + std::to_string(ranks));
        // The last loss follows as many updates as this loss in f32.
        const double same_updates = expected.at(expected.size() - 1 - static_cast<std::size_t>(losses.skipped_steps));
        EXPECT_NEAR(losses.values.back(), same_updates, 0.01 * same_updates) << dtype_name(dtype) << " " << ranks;
      });
    }
  }
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Conv2d modules as units, and images sharded by rows, give the same losses as one rank.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/images.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

class Small : public nn::Callable<Small> {
 public:
  Small() {
    add_module("first", first_);
    add_module("norm", norm_);
    add_module("second", second_);
  }
  Tensor forward(const Tensor& x) { return mean(square(second_(relu(norm_(first_(x)))) - 0.5)); }
  [[nodiscard]] std::string_view class_name() const override { return "Small"; }

 private:
  nn::Conv2d first_{3, 5, {3}, {.padding = {1}, .dtype = DType::kF64}};
  nn::BatchNorm2d norm_{5, {.dtype = DType::kF64}};
  nn::Conv2d second_{5, 2, {3}, {.stride = {2}, .padding = {1}, .dtype = DType::kF64}};
};

std::vector<double> losses(const Mesh* mesh) {
  manual_seed(3);
  Small model;
  if (mesh != nullptr) {
    set_default_mesh(*mesh);
    fully_shard(model, {.mesh = *mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"Conv2d"})});
    EXPECT_NE(model.children()[0].second->unit(), "");
  }
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 1e-2});
  std::vector<double> out;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    std::vector<double> values;
    for (int i = 0; i < 3 * 3 * 7 * 5; ++i) values.push_back(std::sin(i * (step + 1)));
    const Tensor x = Tensor::from<double>({3, 3, 7, 5}, values);
    if (mesh != nullptr) mark_sharding(x, *mesh, {"fsdp", {}, "rows", {}});
    const Tensor loss = model(x);
    loss.backward();
    optimizer.step();
    mark_step();
    out.push_back(loss.item());
  }
  return out;
}

TEST(FullyShard, ConvolutionsAreUnitsAndImagesMayBeShardedByRows) {
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = losses(nullptr);
  }
  on_ranks(6, [&](int) {
    const Mesh mesh({{"fsdp", 3}, {"rows", 2}});
    const auto got = losses(&mesh);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
  });
}

}  // namespace
}  // namespace tessera

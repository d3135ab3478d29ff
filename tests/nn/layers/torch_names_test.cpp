// SPDX-License-Identifier: Apache-2.0
// Options and functions of modules that PyTorch's users expect.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/convolution.h"
#include "tessera/nn/layers.h"

namespace tessera::nn {
namespace {

// The convolution of 0, 1, 2, 3 with a kernel of ones.
testing::Numbers of_ones(std::int64_t kernel_size, Conv1d::Options options) {
  options.bias = false;
  options.dtype = kF64;
  Conv1d layer(1, 1, kernel_size, options);
  layer.weight().assign(ones({1, 1, kernel_size}, kF64));
  return testing::numbers(layer(testing::counted({1, 1, 4})));
}

TEST(TorchConvolutions, SamePaddingKeepsTheSize) {
  const FreshRank rank;
  using testing::Numbers;
  EXPECT_EQ(of_ones(3, {.padding = kSamePadding}), (Numbers{1, 3, 6, 5}));
  EXPECT_EQ(of_ones(2, {.padding = kSamePadding}), (Numbers{1, 3, 5, 3}));  // one element more at the end
  EXPECT_EQ(of_ones(2, {.padding = kSamePadding, .dilation = 3}), (Numbers{2, 3, 1, 2}));
  EXPECT_EQ(of_ones(3, {.padding = 1, .padding_mode = PadMode::kReflect}), (Numbers{2, 3, 6, 7}));
  EXPECT_EQ(of_ones(3, {.padding = kSamePadding, .padding_mode = PadMode::kCircular}), (Numbers{4, 3, 6, 5}));
  EXPECT_EQ(testing::error_of([] { Conv1d(1, 1, 3, {.stride = 2, .padding = kSamePadding}); }),
            "Conv1d: kSamePadding requires stride 1, got 2");
}

TEST(TorchConvolutions, SamePaddingOfImages) {
  const FreshRank rank;
  Conv2d layer(1, 1, {2, 3}, {.padding = kSamePadding, .bias = false, .dtype = kF64});
  layer.weight().assign(ones({1, 1, 2, 3}, kF64));
  EXPECT_EQ(testing::numbers(layer(testing::counted({1, 1, 2, 2}))), (testing::Numbers{6, 6, 5, 5}));
  Conv2d replicated(1, 1, {1, 3},
                    {.padding = {0, 1}, .bias = false, .dtype = kF64, .padding_mode = PadMode::kReplicate});
  replicated.weight().assign(ones({1, 1, 1, 3}, kF64));
  EXPECT_EQ(testing::numbers(replicated(testing::counted({1, 1, 2, 2}))), (testing::Numbers{1, 2, 7, 8}));
  EXPECT_EQ(testing::error_of([] {
              Conv2d(1, 1, 3, {.stride = {1, 2}, .padding = kSamePadding});
            }),
            "Conv2d: kSamePadding requires stride 1, got 1 x 2");
}

struct ListAndNorm : Callable<ListAndNorm> {
  ListAndNorm() {
    list.append(make<Linear>(3, 2));
    register_module("list", list);
    register_module("norm", norm);
  }
  Tensor forward(const Tensor& x) { return list[0](norm(x)); }
  ModuleList<Linear> list;
  RMSNorm norm{3, 0.5};
};

TEST(TorchModules, NamesAndParametersInLoops) {
  const FreshRank rank;
  ListAndNorm pair;
  std::string names;
  std::int64_t count = 0;
  for (const auto& [name, parameter] : pair.named_parameters()) {
    names += name + " ";
    count += parameter.numel();
  }
  EXPECT_EQ(names, "list.0.weight list.0.bias norm.weight ");
  for (auto [name, parameter] : pair.named_parameters()) EXPECT_EQ(parameter.type(), pair.parameter(name).type());
  EXPECT_EQ(count, 3 * 2 + 2 + 3);
  const std::vector<Module*> all = pair.modules();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0], &pair);
  EXPECT_EQ(all[2], &pair.list[0]);
  std::ostringstream out;
  out << pair;
  EXPECT_EQ(out.str(), pair.str());
}

TEST(TorchModules, RMSNormTakesEpsilon) {
  const FreshRank rank;
  RMSNorm norm(2, 0.5);
  const auto got = testing::numbers(norm(Tensor::from({3.0F, 4.0F}, {2})));
  EXPECT_NEAR(got[0], 3 / std::sqrt(12.5 + 0.5), 1e-6);
  EXPECT_NEAR(got[1], 4 / std::sqrt(12.5 + 0.5), 1e-6);
}

TEST(TorchModules, MarkShardingReturnsTheTensor) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    const Tensor x = mark_sharding(Tensor::from({1.0, 2.0, 3.0, 4.0}, {4}), mesh, {"data"});
    ASSERT_TRUE(x.sharding().has_value());
    EXPECT_EQ(x.local_shard().type().dims(), Dims({2}));
    EXPECT_EQ(mark_sharding(x * 2.0, mesh, {"data"}).to_vector<double>(), (std::vector<double>{2, 4, 6, 8}));
  });
}

}  // namespace
}  // namespace tessera::nn

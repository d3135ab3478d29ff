// SPDX-License-Identifier: Apache-2.0
// Annotations: the placement of data, errors, and pictures.
#include <gtest/gtest.h>

#include <sstream>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/ir/text.h"
#include "tessera/nn/layers.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

using testing::error_of;

Tensor matrix() { return Tensor::from<float>({4, 6}, std::vector<float>(24, 1)); }
const Mesh kDataModel({{"data", 2}, {"model", 3}});

TEST(MarkSharding, AMarkedTensorAcceptsTheSameMarkOrANewOneAfterClearing) {
  const FreshRank rank;
  plan_for_devices(6);
  Tensor twice = matrix();
  mark_sharding(twice, kDataModel, {"data", {}});
  mark_sharding(twice, kDataModel, {"data", {}});
  EXPECT_NE(error_of([&] { mark_sharding(twice, kDataModel, {{}, "model"}); }), "no error");
  clear_sharding(twice);
  mark_sharding(twice, kDataModel, {{}, "model"});
  EXPECT_EQ(twice.sharding()->str(), "{-,model}");
}

TEST(MarkSharding, ParametersOfAnOptimizerCannotBeMarkedAgain) {
  const FreshRank rank;
  plan_for_devices(6);
  nn::Linear layer(4, 6);
  const optim::AdamW optimizer(layer.parameters(), {});
  EXPECT_NE(error_of([&] {
              mark_sharding(layer.weight(), kDataModel, {"data", {}});
            }).find("mark shardings before making the optimizer"),
            std::string::npos);
}

TEST(MarkSharding, EachRankStoresItsShardAndReadingGathersIt) {
  on_ranks(6, [](int rank) {
    std::vector<float> values;
    for (int i = 0; i < 20; ++i) values.push_back(static_cast<float>(i));
    const Tensor x = Tensor::from<float>({4, 5}, values);
    mark_sharding(x, kDataModel, {"data", "model"});  // 5 over 3: 2, 2, 1
    const Literal shard = x.local_shard();
    EXPECT_EQ(shard.type(), Type::array(DType::kF32, {2, 2}));
    EXPECT_EQ(shard.data<float>()[0], static_cast<float>(rank / 3 * 10 + rank % 3 * 2));
    EXPECT_EQ(x.to_vector<float>(), values);
  });
}

TEST(MarkSharding, LocalShardsFormTheGlobalTensor) {
  on_ranks(3, [](int rank) {
    const Mesh mesh({{"data", 3}});
    const float base = static_cast<float>(10 * rank);
    const Tensor x = Tensor::from_local_shards(Type::array(DType::kF32, {5}), mesh, {"data"},
                                               Literal::from<float>({2}, {base, base + 1}));
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 10, 11, 20}));
    EXPECT_EQ(sum(x).item(), 42);
  });
}

TEST(MarkSharding, DividedDataKeepsItsValueIfItIsMarkedAgain) {
  on_ranks(3, [](int rank) {
    const Mesh mesh({{"data", 3}});
    const float base = static_cast<float>(10 * rank);
    const Tensor x = Tensor::from_local_shards(Type::array(DType::kF32, {5}), mesh, {"data"},
                                               Literal::from<float>({2}, {base, base + 1}));
    const Tensor y = x * 2.0;
    mark_sharding(x, mesh, {"data"});
    mark_step();
    mark_sharding(y, mesh, {"data"});  // data now
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 10, 11, 20}));
    mark_sharding(y, mesh, {"data"});
    EXPECT_EQ(sum(y).item(), 84);
  });
}

TEST(MarkSharding, AnIntermediateValueKeepsItsMark) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    Tensor y = Tensor::from<float>({4}, {1, 2, 3, 4}) * 2.0;
    mark_sharding(y, mesh, {"data"});
    mark_step();
    EXPECT_EQ(y.local_shard().type(), Type::array(DType::kF32, {2}));
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
  });
}

TEST(MarkSharding, OnlyComputedTensorsMayHaveOpenDims) {
  const FreshRank rank;
  plan_for_devices(6);
  const std::string text = error_of([] { mark_sharding(matrix(), kDataModel, {kUnconstrained, "model"}); });
  EXPECT_NE(
      text.find("f32[4,6] is a stored tensor: spec {?,model} must close every dim (\"?\" is only for traced tensors)"),
      std::string::npos)
      << text;
  const Tensor x = matrix();
  mark_sharding(x, kDataModel, {"data", {}});
  const Tensor y = with_sharding_constraint(x * 2.0, kDataModel, {kUnconstrained, "model"});
  const auto program = print_program(plan_step().partitioned.program);
  EXPECT_NE(program.find("f32[2,2]"), std::string::npos) << program;
}

TEST(MarkSharding, WithGradientsTheGradientOfAProductIsConstrainedToo) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    Tensor w = Tensor::from<double>({2, 2}, {1, 2, 3, 4});
    w.set_requires_grad();
    const Tensor marked = mark_sharding_with_gradients(w, mesh, {"data", {}});
    sum(square(marked)).backward();
    mark_step();
    EXPECT_EQ(w.grad().to_vector<double>(), (std::vector<double>{2, 4, 6, 8}));
  });
}

TEST(MarkSharding, MaterializedVariablesCanBeMarkedAndCleared) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    Tensor x = Tensor::from<float>({2}, {1, 2}) + 0.0;
    mark_step();
    mark_sharding(x, mesh, {"data"});
    EXPECT_EQ(x.local_shard().type(), Type::array(DType::kF32, {1}));
    clear_sharding(x);
    mark_step();
    EXPECT_EQ(x.local_shard().type(), Type::array(DType::kF32, {2}));
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
  });
}

TEST(MarkSharding, ThePictureOfATensorHasALineWithItsSharding) {
  const FreshRank rank;
  plan_for_devices(6);
  const Tensor x = matrix();
  mark_sharding(x, kDataModel, {"data", {}});
  std::ostringstream out;
  visualize_tensor_sharding(x, {.cell_width = 7, .cell_height = 1}, out);
  EXPECT_EQ(out.str(), "f32[4,6] {data,-}\n┌───────┐\n│ 0,1,2 │\n├───────┤\n│ 3,4,5 │\n└───────┘\n");
}

// The rows of the constrained value are sharded within the program, because those of x are.
TEST(MarkSharding, AResultWithOpenDimsCanBeRead) {
  on_ranks(6, [](int) {
    const Mesh mesh({{"data", 3}, {"model", 2}});
    set_default_mesh(mesh);
    const Tensor x = Tensor::from<double>({3, 2}, {1, 2, 3, 4, 5, 6});
    mark_sharding(x, mesh, {"data", {}});
    const Tensor y = with_sharding_constraint(x * 2.0, mesh, {kUnconstrained, "model"});
    mark_step();
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{2, 4, 6, 8, 10, 12}));
  });
}

TEST(MarkSharding, ASpecMayBeAListOfEntries) {
  const FreshRank rank;
  plan_for_devices(6);
  const SpecEntry both{"data", "model"};
  Tensor vector = Tensor::from<float>({6}, std::vector<float>(6, 1));
  mark_sharding(vector, kDataModel, {both});
  EXPECT_EQ(vector.sharding()->str(), "{data+model}");
  Tensor x = Tensor::from<float>({4, 6}, std::vector<float>(24, 1));
  mark_sharding(x, kDataModel, {{}, both});
  EXPECT_EQ(x.sharding()->str(), "{-,data+model}");
}

}  // namespace
}  // namespace tessera

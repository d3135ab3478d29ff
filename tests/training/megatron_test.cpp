// SPDX-License-Identifier: Apache-2.0
// A Megatron-style MLP: the first layer shards columns, the second one rows.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kRows = 10;
constexpr std::int64_t kWidth = 12;
constexpr std::int64_t kInner = 24;

Tensor input(const Dims& dims) {
  Tensor out = Tensor::abstract(Type::array(DType::kF32, dims));
  out.set_requires_grad();
  return out;
}

struct Mlp {
  explicit Mlp(const Mesh& mesh) {
    mark_sharding(up, mesh, {{}, "model"});
    mark_sharding(up_bias, mesh, {"model"});
    mark_sharding(down, mesh, {"model", {}});
  }
  Tensor operator()(const Tensor& x) const { return matmul(gelu(matmul(x, up) + up_bias), down) + down_bias; }
  Tensor up = input({kWidth, kInner});
  Tensor up_bias = input({kInner});
  Tensor down = input({kInner, kWidth});
  Tensor down_bias = input({kWidth});
};

// Returns the collectives of the traced step as "opcode axes".
std::vector<std::string> collectives() {
  std::vector<std::string> out;
  for (const auto& note : plan_step().partitioned.notes) out.push_back(note.opcode + " " + note.axes);
  return out;
}
using Names = std::vector<std::string>;

class MegatronMlp : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(MegatronMlp, ForwardHasOneAllReduce) {
  const FreshRank rank;
  plan_for_devices(GetParam());
  const Mesh mesh({{"model", GetParam()}});
  set_default_mesh(mesh);
  const Mlp mlp(mesh);
  const Tensor x = input({kRows, kWidth});
  mark_sharding(x, mesh, {{}, {}});
  const Tensor y = mlp(x);
  EXPECT_EQ(collectives(), Names{"all-reduce model"});
}

TEST_P(MegatronMlp, ForwardAndBackwardHaveOneAllReduceEach) {
  const FreshRank rank;
  plan_for_devices(GetParam());
  const Mesh mesh({{"model", GetParam()}});
  set_default_mesh(mesh);
  const Mlp mlp(mesh);
  const Tensor x = input({kRows, kWidth});
  mark_sharding(x, mesh, {{}, {}});
  const Tensor loss = mean(square(mlp(x)));
  loss.backward();
  EXPECT_EQ(collectives(), (Names{"all-reduce model", "all-reduce model"}));
}

// The sequence-parallel form: rows are sharded outside of the MLP, so the all-reduce is split into an all-gather before
// and a reduce-scatter after the two products.
TEST_P(MegatronMlp, WithShardedRowsForwardGathersOnceAndScattersOnce) {
  const FreshRank rank;
  plan_for_devices(GetParam());
  const Mesh mesh({{"model", GetParam()}});
  set_default_mesh(mesh);
  const Mlp mlp(mesh);
  const Tensor x = input({kRows, kWidth});
  mark_sharding(x, mesh, {"model", {}});
  const Tensor y = mlp(x);
  mark_sharding(y, mesh, {"model", {}});
  EXPECT_EQ(collectives(), (Names{"all-gather model", "reduce-scatter model"}));
}

INSTANTIATE_TEST_SUITE_P(Devices, MegatronMlp, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace tessera::testing

// SPDX-License-Identifier: Apache-2.0
// Functions of shard_map as models use them.
#include <gtest/gtest.h>

#include "frontend/shard_map_support.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera {
namespace {

TEST(ShardMap, BranchesMayDependOnTheDevice) {
  expect_same(
      {{6, 5}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) {
          const Tensor p = axis_index("model") == 1.0;
          return cond(p, sin(x), x * x) + psum(x, "model");
        };
        return shard_map(f, kGrid, {{"model", {}}}, {{"model", {}}})(in[0]);
      },
      [](const Inputs& in) {
        const Tensor x = in[0];
        const Tensor p = x.reshape({3, 2, 5});
        const Tensor s = sum(p, {.dims = {0}});
        const Tensor y =
            concat({square(x.slice(0, 0, 2)) + s, sin(x.slice(0, 2, 4)) + s, square(x.slice(0, 4, 6)) + s}, 0);
        return y;
      });
}

TEST(ShardMap, AttentionOverPositionsExchangesThemForHeads) {
  expect_same(
      {{6, 3, 4}, {6, 3, 4}, {6, 3, 4}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& q, const Tensor& k, const Tensor& v) {
          const auto h = [](const Tensor& t) {
            return all_to_all(t, "model", {.split_axis = 1, .concat_axis = 0, .tiled = true}).transpose({1, 0, 2});
          };
          const Tensor s = softmax(matmul(h(q), h(k).transpose({0, 2, 1})), -1);
          const Tensor o = matmul(s, h(v)).transpose({1, 0, 2});
          return all_to_all(o, "model", {.split_axis = 0, .concat_axis = 1, .tiled = true});
        };
        return shard_map(f, kGrid, {{"model", {}, {}}}, {{"model", {}, {}}})(in[0], in[1], in[2]);
      },
      [](const Inputs& in) {
        const auto h = [](const Tensor& t) { return t.transpose({1, 0, 2}); };
        return matmul(softmax(matmul(h(in[0]), h(in[1]).transpose({0, 2, 1})), -1), h(in[2])).transpose({1, 0, 2});
      });
}

TEST(ShardMap, SumsAndExtremesAreDefinedForAllNumbers) {
  on_ranks(6, [](int) {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kS32}) {
      const Tensor x = Tensor::iota(Type::array(t, {6}), 0);
      const auto f = [](const Tensor& a) { return std::make_pair(psum(a, {"data", "model"}), pmax(a, "model")); };
      const auto [s, m] = shard_map(f, kGrid, {PartitionSpec{{"data", "model"}}}, {{}, {"data"}})(x);
      EXPECT_EQ(s.to(DType::kF32).to_vector<float>(), std::vector<float>{15});
      EXPECT_EQ(m.to(DType::kF32).to_vector<float>(), (std::vector<float>{2, 5}));
    }
  });
}

TEST(ShardMap, ALayerMayBeAppliedRepeatedly) {
  for (int ranks : {2, 3, 4})
    expect_same(
        {{12, 12}, {12, 12}},
        [ranks](const Inputs& in) {
          const Mesh mesh({{"x", ranks}});
          mark_sharding(in[1], mesh, {"x", {}});
          const auto f = [](const Tensor& x, const Tensor& w) {
            Tensor h = x;
            for (int i = 0; i < 3; ++i)
              h = tanh(psum_scatter(matmul(h, w), "x", {.scatter_dimension = 1, .tiled = true}));
            return h;
          };
          return shard_map(f, mesh, {{{}, "x"}, {"x", {}}}, {{{}, "x"}})(in[0], in[1]);
        },
        [](const Inputs& in) {
          Tensor h = in[0];
          for (int i = 0; i < 3; ++i) h = tanh(matmul(h, in[1]));
          return h;
        },
        ranks);
}

TEST(ShardMap, ATensorOfADeviceCannotBeUsedOutside) {
  on_ranks(6, [](int) {
    Tensor kept;
    const auto f = [&](const Tensor& x) {
      kept = x * 2.0;
      return x;
    };
    const Tensor y = shard_map(f, kGrid, {{"model"}}, {{"model"}})(numbers({6}, 1));
    expect_message([&] { (void)(kept + 1.0).to_vector<double>(); },
                   "is a shard that differs between devices, so the host cannot read it: return it from the function");
  });
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Collectives in functions of shard_map: values and gradients equal those of the function of the complete arrays.
#include <gtest/gtest.h>

#include "frontend/shard_map_support.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera {
namespace {

// ---- sums ---------------------------------------------------------------------------------------------------------------

TEST(ShardMap, AProductOverAShardedDimIsASumOverItsDevices) {
  expect_same(
      {{4, 9}, {9, 5}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x, const Tensor& w) {
          EXPECT_EQ(x.dims(), (Dims{2, 3}));
          EXPECT_EQ(w.dims(), (Dims{3, 5}));
          return psum(matmul(x, w), "model");
        };
        return shard_map(f, kGrid, {{"data", "model"}, {"model", {}}}, {{"data", {}}})(in[0], in[1]);
      },
      [](const Inputs& in) { return matmul(in[0], in[1]); });
}

TEST(ShardMap, ASumOverTwoAxesReducesOverAllTheirDevices) {
  expect_same(
      {{6, 5}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) { return psum(sum(exp(x)), {"data", "model"}) * x; };
        return shard_map(f, kGrid, {{{"model", "data"}, {}}}, {{{"model", "data"}, {}}})(in[0]);
      },
      [](const Inputs& in) { return sum(exp(in[0])) * in[0]; });
}

TEST(ShardMap, AReplicatedArgumentCollectsTheGradientsOfAllDevices) {
  expect_same(
      {{4, 7}, {7}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x, const Tensor& scale) { return tanh(x * scale); };
        return shard_map(f, kGrid, {{"data", {}}, {}}, {{"data", {}}})(in[0], in[1]);
      },
      [](const Inputs& in) { return tanh(in[0] * in[1]); });
}

TEST(ShardMap, ACapturedTensorIsAReplicatedArgument) {
  expect_same(
      {{4, 7}, {7}, {7}},
      [](const Inputs& in) {
        const Tensor doubled = in[2] * 2.0;
        const auto f = [&](const Tensor& x) { return tanh(x * in[1] * in[1] + doubled); };
        return shard_map(f, kGrid, {{{"data"}, {}}}, {{"data", {}}})(in[0]);
      },
      [](const Inputs& in) { return tanh(in[0] * in[1] * in[1] + in[2] * 2.0); });
}

TEST(ShardMap, AResultThatOnlyUsesCapturedTensorsIsAllowed) {
  expect_same(
      {{6}, {5}},
      [](const Inputs& in) {
        const auto f = [&](const Tensor& x) { return std::make_pair(exp(in[1]), x * 2.0); };
        const auto [captured, own] = shard_map(f, kGrid, {{"model"}}, {{}, {"model"}})(in[0]);
        return concat({captured, own}, 0);
      },
      [](const Inputs& in) {
        return concat({exp(in[1]), in[0] * 2.0}, 0);
      });
}

TEST(ShardMap, TheMeanOverAnAxisDividesTheSum) {
  expect_same(
      {{6, 5}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) { return x - pmean(mean(x, {.dims = {0}}), {"data", "model"}); };
        return shard_map(f, kGrid, {{{"data", "model"}, {}}}, {{{"data", "model"}, {}}})(in[0]);
      },
      [](const Inputs& in) { return in[0] - mean(in[0], {.dims = {0}}); });
}

TEST(ShardMap, ASumOfEqualValuesMultipliesThemAndTheirGradient) {
  expect_same(
      {{5}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) { return psum(sin(x), "model") + psum(x, {"data", "model"}); };
        return shard_map(f, kGrid, {{}}, {{}})(in[0]);
      },
      [](const Inputs& in) { return sin(in[0]) * 3.0 + in[0] * 6.0; });
}

TEST(ShardMap, TheExtremeOverAnAxisHasTheGradientOfTheMaximum) {
  expect_same(
      {{6, 5}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) {
          return pmax(max(x, {.dims = {0}}), "model") * pmin(min(x, {.dims = {0}}), {"model"});
        };
        return shard_map(f, kGrid, {{"model", {}}}, {{}})(in[0]);
      },
      [](const Inputs& in) { return max(in[0], {.dims = {0}}) * min(in[0], {.dims = {0}}); });
}

// ---- exchanges ----------------------------------------------------------------------------------------------------------

TEST(ShardMap, AGatherStacksOrConcatenatesTheShards) {
  expect_same(
      {{6, 5}, {6}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x, const Tensor& y) {
          const Tensor stacked = all_gather(x, "model", {.axis = 1});  // [2, 3, 5]
          EXPECT_EQ(stacked.dims(), (Dims{2, 3, 5}));
          const Tensor all = all_gather(y, {"data", "model"}, {.axis = 0, .tiled = true});
          EXPECT_EQ(all.dims(), (Dims{6}));
          return sum(stacked * stacked, {.dims = {0, 1}}) * sum(all * all);
        };
        return shard_map(f, kGrid, {{"model", {}}, {{"data", "model"}}}, {{}})(in[0], in[1]);
      },
      [](const Inputs& in) { return sum(in[0] * in[0], {.dims = {0}}) * sum(in[1] * in[1]); });
}

TEST(ShardMap, AGatheredWeightIsReducedToItsShards) {
  expect_same(
      {{4, 9}, {9, 5}},
      [](const Inputs& in) {  // weights sharded as in FSDP
        const auto f = [](const Tensor& x, const Tensor& w) {
          return tanh(matmul(x, all_gather(w, "data", {.axis = 1, .tiled = true})));
        };
        const Tensor w = pad(in[1], 1, 0, 1);
        return shard_map(f, kGrid, {{"data", {}}, {{}, "data"}}, {{"data", {}}})(in[0], w);
      },
      [](const Inputs& in) { return tanh(matmul(in[0], pad(in[1], 1, 0, 1))); });
}

TEST(ShardMap, AScatteredSumIsThePartOfEachDevice) {
  expect_same(
      {{4, 9}, {9, 6}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x, const Tensor& w) {
          return psum_scatter(matmul(x, w), "model", {.scatter_dimension = 1, .tiled = true});
        };
        return shard_map(f, kGrid, {{"data", "model"}, {"model", {}}}, {{"data", "model"}})(in[0], in[1]);
      },
      [](const Inputs& in) { return matmul(in[0], in[1]); });
  expect_same(
      {{9, 2}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) { return psum_scatter(square(x), "model").unsqueeze(0); };
        return shard_map(f, kGrid, {{"model", {}}}, {{"model", {}}})(in[0]);
      },
      [](const Inputs& in) {
        return sum(square(in[0]).reshape({3, 3, 2}), {.dims = {0}});
      });
}

TEST(ShardMap, AnExchangeMovesTheShardedDim) {
  for (const bool tiled : {true, false})
    expect_same(
        {{3, 6, 5}},
        [tiled](const Inputs& in) {
          const auto f = [tiled](const Tensor& x) {  // [1, 6, 5]: heads and positions change places
            if (tiled) return exp(all_to_all(x, "model", {.split_axis = 1, .concat_axis = 0, .tiled = true}));
            const Tensor parts = all_to_all(x.reshape({3, 2, 5}), "model", {.split_axis = 0, .concat_axis = 1});
            EXPECT_EQ(parts.dims(), (Dims{2, 3, 5}));
            return exp(parts.transpose({1, 0, 2}));
          };
          return shard_map(f, kGrid, {{"model", {}, {}}}, {{{}, "model", {}}})(in[0]);
        },
        [](const Inputs& in) { return exp(in[0]); });
}

TEST(ShardMap, AnExchangeWithinADimIsATranspositionOfBlocks) {
  expect_same(
      {{9, 2}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) {
          return square(all_to_all(x, "model", {.split_axis = 0, .concat_axis = 0, .tiled = true}));
        };
        return shard_map(f, kGrid, {{"model", {}}}, {{"model", {}}})(in[0]);
      },
      [](const Inputs& in) {
        return square(in[0]).reshape({3, 3, 2}).transpose({1, 0, 2}).reshape({9, 2});
      });
}

TEST(ShardMap, ARotationSendsEachShardToTheNextDevice) {
  expect_same(
      {{6, 5}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) {
          const auto n = axis_size("model");
          EXPECT_EQ(n, 3);
          return square(ppermute(x, "model", {{0, 1}, {1, 2}, {2, 0}})) + x;
        };
        return shard_map(f, kGrid, {{"model", {}}}, {{"model", {}}})(in[0]);
      },
      [](const Inputs& in) {
        return square(concat({in[0].slice(0, 4, 6), in[0].slice(0, 0, 4)}, 0)) + in[0];
      });
}

TEST(ShardMap, ADeviceThatReceivesNothingHasZeros) {
  expect_same(
      {{6, 5}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) { return exp(ppermute(x, {"data", "model"}, {{0, 5}, {4, 2}})); };
        return shard_map(f, kGrid, {{{"data", "model"}, {}}}, {{{"data", "model"}, {}}})(in[0]);
      },
      [](const Inputs& in) {
        const Tensor zeros = Tensor::zeros(Type::array(DType::kF64, {1, 5}));
        return exp(concat({zeros, zeros, in[0].slice(0, 4, 5), zeros, zeros, in[0].slice(0, 0, 1)}, 0));
      });
}

TEST(ShardMap, TheIndexAlongAnAxisIsTheCoordinateOfTheDevice) {
  expect_same(
      {{6}},
      [](const Inputs& in) {
        const auto f = [](const Tensor& x) {
          return x * axis_index({"model", "data"}).to(DType::kF64) + axis_index("data").to(DType::kF64);
        };
        return shard_map(f, kGrid, {{{"data", "model"}}}, {{{"data", "model"}}})(in[0]);
      },
      [](const Inputs& in) {
        return in[0] * Tensor::from<double>({6}, {0, 2, 4, 1, 3, 5}) + Tensor::from<double>({6}, {0, 0, 0, 1, 1, 1});
      });
}

}  // namespace
}  // namespace tessera

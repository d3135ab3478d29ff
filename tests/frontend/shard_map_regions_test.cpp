// SPDX-License-Identifier: Apache-2.0
// Functions of shard_map within programs: meshes, shardings around them, nesting, compiled steps, errors.
#include <gtest/gtest.h>

#include "frontend/shard_map_support.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/control/vmap.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/ops/collectives.h"

namespace tessera {
namespace {

// ---- meshes, orders, sizes ----------------------------------------------------------------------------------------------

TEST(ShardMap, TheOrderOfTheDevicesIsThatOfTheMesh) {
  const Mesh mesh({5, 0, 3, 1, 4, 2}, {3, 2}, {"x", "y"});
  expect_same(
      {{9, 4}},
      [&](const Inputs& in) {
        const auto f = [](const Tensor& x) {
          const Tensor all = all_gather(x, {"y"}, {.axis = 1, .tiled = true});
          return psum(ppermute(all * axis_index("x").to(DType::kF64), "x", {{0, 2}, {2, 1}, {1, 0}}), "x");
        };
        return shard_map(f, mesh, {{"x", "y"}}, {{}})(in[0]);
      },
      [](const Inputs& in) {
        const Tensor parts = in[0].reshape({3, 3, 4});
        return sum(parts * Tensor::from<double>({3, 1, 1}, {0, 1, 2}), {.dims = {0}});
      });
}

TEST(ShardMap, OneDeviceNeedsNoExchange) {
  const Mesh mesh({{"data", 1}, {"model", 1}});
  expect_same(
      {{5, 3}},
      [&](const Inputs& in) {
        const auto f = [](const Tensor& x) {
          const Tensor y = psum(x, {"data", "model"}) + ppermute(x, "model", {{0, 0}}) + ppermute(x, "data", {});
          const Tensor z = all_to_all(y, "data", {.split_axis = 0, .concat_axis = 1, .tiled = true});
          return all_gather(psum_scatter(z, "model", {.tiled = true}), "data", {.tiled = true}) *
                 (axis_index("data").to(DType::kF64) + 1.0);
        };
        return shard_map(f, mesh, {{"data", "model"}}, {{"data", "model"}})(in[0]);
      },
      [](const Inputs& in) { return in[0] * 2.0; }, 1);
}

TEST(ShardMap, ItsArgumentsMayHaveAnySharding) {
  expect_same(
      {{7, 6}, {6, 6}},
      [](const Inputs& in) {
        mark_sharding(in[0], kGrid, {"model", {}});  // 7 over 3
        mark_sharding(in[1], kGrid, {{}, {"model", "data"}});
        const auto f = [](const Tensor& x, const Tensor& w) {
          return psum_scatter(matmul(x, w), "data", {.scatter_dimension = 1, .tiled = true});
        };
        const Tensor y =
            shard_map(f, kGrid, {{{}, "data"}, {"data", "model"}}, {{{}, {"model", "data"}}})(in[0], in[1]);
        return sum(tanh(y), {.dims = {0}});
      },
      [](const Inputs& in) { return sum(tanh(matmul(in[0], in[1])), {.dims = {0}}); });
}

TEST(ShardMap, TwoCallsInARowFormOneProgram) {
  expect_same(
      {{6, 6}},
      [](const Inputs& in) {
        const auto rows =
            shard_map([](const Tensor& x) { return softmax(x, 1); }, kGrid, {{"model", {}}}, {{"model", {}}});
        const auto columns =
            shard_map([](const Tensor& x) { return psum(x, "data"); }, kGrid, {{{}, "data"}}, {{}}, {.check = true});
        return columns(rows(in[0]) * 2.0);
      },
      [](const Inputs& in) {
        const Tensor y = softmax(in[0], 1) * 2.0;
        return y.slice(1, 0, 3) + y.slice(1, 3, 6);
      });
}

TEST(ShardMap, AxesThatAreNotNamedAreLeftToThePartitioner) {
  expect_same(
      {{4, 9}, {9, 5}},
      [](const Inputs& in) {
        mark_sharding(in[0], kGrid, {{}, "model"});
        const auto f = [](const Tensor& x, const Tensor& w) {
          EXPECT_EQ(x.dims(), (Dims{2, 9}));
          const Tensor y = with_sharding_constraint(matmul(x, w), kGrid, {"model", {}});
          return y - pmean(y, "data") * axis_index("data").to(DType::kF64);
        };
        return shard_map(f, kGrid, {{"data", {}}, {}}, {{"data", {}}}, {.axis_names = {"data"}})(in[0], in[1]);
      },
      [](const Inputs& in) {
        const Tensor y = matmul(in[0], in[1]);
        const Tensor half = (y.slice(0, 0, 2) + y.slice(0, 2, 4)) / 2.0;
        return concat({y.slice(0, 0, 2), y.slice(0, 2, 4) - half}, 0);
      });
}

TEST(ShardMap, RegionsOverDifferentAxesNest) {
  expect_same(
      {{4, 9}},
      [](const Inputs& in) {
        const auto inner = [](const Tensor& x) {
          return psum(sum(square(x), {.dims = {1}}), "model") + axis_index("data").to(DType::kF64);
        };
        const auto outer = [&](const Tensor& x) {
          return shard_map(inner, kGrid, {{{}, "model"}}, {{{}}}, {.axis_names = {"model"}})(x * 2.0);
        };
        return shard_map(outer, kGrid, {{"data", {}}}, {{"data"}}, {.axis_names = {"data"}})(in[0]);
      },
      [](const Inputs& in) {
        return sum(square(in[0] * 2.0), {.dims = {1}}) + Tensor::from<double>({4}, {0, 0, 1, 1});
      });
}

TEST(ShardMap, ResultsMayBeInStructures) {
  on_ranks(6, [](int) {
    const auto f = [](const std::vector<Tensor>& x) {
      return std::make_tuple(x[0] + x[1], std::vector<Tensor>{x[0], psum(x[1], "model")});
    };
    const auto g = shard_map(f, kGrid, {{"model"}, {"model"}}, {{"model"}, {"model"}, {}});
    const auto [sums, others] =
        g(std::vector<Tensor>{Tensor::from<double>({3}, {1, 2, 3}), Tensor::from<double>({3}, {10, 20, 30})});
    EXPECT_EQ(sums.to_vector<double>(), (std::vector<double>{11, 22, 33}));
    EXPECT_EQ(others[1].to_vector<double>(), (std::vector<double>{60}));
  });
}

TEST(ShardMap, ManualShardingHasPyTorchXlasNames) {
  expect_same(
      {{6, 5}},
      [](const Inputs& in) {
        const Tensor local = enable_manual_sharding(in[0], {"model", {}}, kGrid);
        EXPECT_EQ(local.dims(), (Dims{2, 5}));
        return disable_manual_sharding(local * psum(local, "model"), {"model", {}}, {6, 5}, kGrid);
      },
      [](const Inputs& in) {
        const Tensor parts = in[0].reshape({3, 2, 5});
        return (parts * sum(parts, {.dims = {0}})).reshape({6, 5});
      });
}

TEST(ShardMap, ATensorParallelLayerSumsOnlyOnceInEachDirection) {
  const FreshRank rank;
  plan_for_devices(6);
  const Tensor x = numbers({4, 6}, 1), w = numbers({6, 9}, 2), v = numbers({9, 6}, 3);
  mark_sharding(x, kGrid, {"data", {}});
  mark_sharding(w, kGrid, {{}, "model"});
  mark_sharding(v, kGrid, {"model", {}});
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return psum(matmul(tanh(matmul(a, b)), c), "model");
  };
  const Tensor y = shard_map(f, kGrid, {{"data", {}}, {{}, "model"}, {"model", {}}}, {{"data", {}}})(x, w, v);
  sum(square(y)).backward();
  int sums_over_model = 0;
  for (const auto& computation : plan_step().partitioned.program.computations)
    for (const Instruction& instruction : computation->instructions)
      if (const auto* attributes = attributes_if<CollectiveAttributes>(instruction.attributes);
          attributes != nullptr && !attributes->replica_groups.groups.empty() &&
          attributes->replica_groups.groups.front() == std::vector<std::int64_t>{0, 1, 2})
        ++sums_over_model;
  EXPECT_EQ(sums_over_model, 2);  // of the result, and of the gradient of x; not of the gradient of the result
}

TEST(ShardMap, AStepWithItIsCompiledOnce) {
  on_ranks(6, [](int) {
    Tensor w = numbers({6}, 1);
    const auto f = [](const Tensor& x) { return psum(square(x), {"data", "model"}); };
    CompiledFunction step = compile([&](const std::vector<Tensor>& in) {
      const Tensor loss = sum(shard_map(f, kGrid, {{{"data", "model"}}}, {{}})(w * in[0]));
      loss.backward();
      w.assign(w.detach() - w.grad() * 0.1);
      w.zero_grad();
      return std::vector<Tensor>{loss};
    });
    std::vector<double> expected = w.to_vector<double>();
    for (int i = 0; i < 3; ++i) {
      double loss = 0;
      for (double& value : expected) {
        loss += value * value * 4;
        value -= 0.1 * 8 * value;
      }
      EXPECT_NEAR(step({Tensor::full(Type::scalar(DType::kF64), 2)})[0].item(), loss, 1e-12);
    }
  });
}

// ---- errors -------------------------------------------------------------------------------------------------------------

TEST(ShardMap, ErrorsNameTheAxisAndTheMesh) {
  const FreshRank rank;
  plan_for_devices(6);
  const Tensor x = numbers({4, 6}, 1, false);
  const auto run = [&](const auto& f, std::vector<PartitionSpec> in, std::vector<PartitionSpec> out,
                       ShardMapOptions options = {}) {
    return [=] { (void)shard_map(f, kGrid, in, out, options)(x); };
  };
  const auto same = [](const Tensor& t) { return t; };
  expect_message(
      run(same, {{"model", {}}}, {{}}),
      "shard_map: argument 0 with in_spec {model,-}: dim 0 of f64[4,6] has size 4, which is not a multiple of 3, "
      "the number of devices along model of mesh<data=2, model=3>");
  expect_message(run(same, {{"modle", {}}}, {{}}), "did you mean \"model\"?");
  expect_message(run(same, {{"data"}}, {{}}), "has 1 entry, the tensor has 2 dims");
  expect_message(
      run(same, {{"data", {}}}, {{{}, {}}}),
      "result 0 may differ between the devices along axis \"data\" of mesh<data=2, model=3>, but out_spec {-,-} "
      "does not name it");
  expect_message(run(same, {{"data", {}}, {}}, {{}}), "2 in_specs are given, but there are 1 arguments");
  expect_message(run(same, {{}}, {{}, {}}), "2 out_specs are given, but there are 1 results");
  expect_message(run([](const Tensor& t) { return psum(t, "rows"); }, {{}}, {{}}),
                 "psum: mesh<data=2, model=3>: mesh has no axis \"rows\"; axes are data, model");
  expect_message(run([](const Tensor& t) { return psum(t, "model"); }, {{}}, {{}}, {.axis_names = {"data"}}),
                 "psum: axis \"model\" of mesh<data=2, model=3> is not in axis_names");
  expect_message(run(same, {{{}, "model"}}, {{}}, {.axis_names = {"data"}}),
                 "names axis \"model\", which axis_names leaves");
  expect_message(run(
                     [](const Tensor& t) {
                       return ppermute(t, "model", {{0, 1}, {0, 2}});
                     },
                     {{}}, {{}}),
                 "coordinate 0 sends twice");
  expect_message(run(
                     [](const Tensor& t) {
                       return ppermute(t, "model", {{0, 3}});
                     },
                     {{}}, {{}}),
                 "the pair (0, 3) is outside");
  expect_message(run([](const Tensor& t) { return psum_scatter(t, "model"); }, {{}}, {{}}),
                 "dim 0 of f64[4,6] must have the size 3, the number of devices along model");
  expect_message([&] { (void)psum(x, "data"); }, "psum: axis \"data\" has a meaning only in a function of shard_map");
  expect_message(
      [&] {
        (void)shard_map(same, Mesh({{"x", 5}}), {{}}, {{}})(x);
      },
      "mesh<x=5> has 5 devices, but this job has 6");
}

TEST(ShardMap, WithoutTheCheckTheUserVouchesForEqualValues) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"x", 2}});
    const Tensor x = Tensor::from<double>({4}, {1, 2, 1, 2});
    const auto same = [](const Tensor& t) { return t; };
    EXPECT_EQ(shard_map(same, mesh, {{"x"}}, {{}}, {.check = false})(x).to_vector<double>(),
              (std::vector<double>{1, 2}));
  });
}

TEST(ShardMap, ACollectiveAfterAManualRegionIsAnErrorAtItsCall) {
  const FreshRank rank;
  plan_for_devices(6);
  const Tensor x = numbers({6, 5}, 1, false);
  const Tensor local = enable_manual_sharding(x, {"model", {}}, kGrid);
  const auto leave = [&](const Tensor& y) { return disable_manual_sharding(y, {"model", {}}, {6, 5}, kGrid); };
  (void)leave(local * psum(local, "model"));
  (void)leave(pmax(local, "model"));  // `local` still belongs to the region
  expect_message([&] { (void)psum(x * 2.0, "model"); },
                 "psum: axis \"model\" has a meaning only in a function of shard_map, or for a tensor of "
                 "enable_manual_sharding()\n  #0   %multiply");
  expect_message([&] { (void)psum(x * 2.0, "model"); }, "  at   shard_map_regions_test.cpp:");
}

TEST(ShardMap, TheHostCannotReadAShard) {
  const FreshRank rank;
  plan_for_devices(6);
  const Tensor x = numbers({6, 5}, 1, false);
  const auto read = [](const Tensor& t) {
    (void)sum(t).item();
    return t;
  };
  const auto call = [&] { (void)shard_map(read, kGrid, {{"model", {}}}, {{"model", {}}})(x); };
  expect_message(call,
                 "a tensor in a function of shard_map is a shard that differs between devices, so the host cannot "
                 "read it: return it from the function, and read the result\n  #0   %reduce");
  expect_message(call, "  at   shard_map_regions_test.cpp:");
}

TEST(ShardMap, InVmapItsErrorNamesIt) {
  const FreshRank rank;
  plan_for_devices(6);
  const Tensor x = numbers({2, 6}, 1, false);
  const auto sharded = [](const Tensor& t) {
    return shard_map([](const Tensor& own) { return own * 2.0; }, kGrid, {{"model"}}, {{"model"}})(t);
  };
  expect_message([&] { (void)vmap(sharded)(x); }, "shard_map cannot run for several examples: call it outside of vmap");
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Meshes, specs, placements and views of shards under the names that users of PyTorch know.
#include <gtest/gtest.h>

#include <numeric>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/sharding/meshes.h"
#include "tessera/frontend/sharding/placements.h"
#include "tessera/frontend/sharding/sharded_tensor.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/ir/text.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/layers.h"

namespace tessera {
namespace {

using testing::error_of;

const Mesh kGrid({{"data", 2}, {"model", 3}});

void expect_message(const std::function<void()>& body, const std::string& part) {
  const std::string text = error_of(body);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

std::vector<double> counting(int count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0.0);
  return out;
}

// ---- specs --------------------------------------------------------------------------------------------------------------

TEST(Specs, AnAxisIsNamedOrNumbered) {
  const auto spec_text = [](const PartitionSpec& spec) { return Sharding::from_spec(kGrid, spec, 2).str(); };
  EXPECT_EQ(spec_text({0, 1}), "{data,model}");
  EXPECT_EQ(spec_text({{}, 0}), "{-,data}");
  EXPECT_EQ(spec_text({{1, 0}, {}}), "{model+data,-}");
  EXPECT_EQ(spec_text({{"data", 1}, nullptr}), "{data+model,-}");
  EXPECT_EQ(spec_text(PartitionSpec::parse("1,-")), "{model,-}");
}

TEST(Specs, ErrorsPrintTheSpec) {
  const auto message = [](const PartitionSpec& spec) {
    return error_of([&] { (void)Sharding::from_spec(kGrid, spec, 2); });
  };
  EXPECT_EQ(message({"data"}), "partition spec {data} has 1 entry, the tensor has 2 dims; give one entry per dim");
  EXPECT_EQ(message({"modle", {}}),
            "partition spec {modle,-}: mesh has no axis \"modle\"; axes are data, model; did you mean \"model\"?");
  EXPECT_EQ(message({2, {}}),
            "partition spec {2,-}: mesh<data=2, model=3> has no axis number 2; its axes are numbered 0 to 1");
  EXPECT_EQ(message({-1, {}}),
            "partition spec {-1,-}: mesh<data=2, model=3> has no axis number -1; its axes are numbered 0 to 1");
  EXPECT_NE(message({0, "data"}).find("uses axis \"data\" of mesh<data=2, model=3> twice"), std::string::npos);
}

TEST(Specs, TheOrderOfATupleOfAxesMatters) {
  on_ranks(6, [](int rank) {
    const Tensor rows_first = Tensor::from<double>({6}, counting(6));
    mark_sharding(rows_first, kGrid, PartitionSpec{{"data", "model"}});
    EXPECT_EQ(rows_first.local_shard().data<double>()[0], rank);
    const Tensor columns_first = Tensor::from<double>({6}, counting(6));
    mark_sharding(columns_first, kGrid, PartitionSpec{{"model", "data"}});
    EXPECT_EQ(columns_first.local_shard().data<double>()[0], rank % 3 * 2 + rank / 3);
  });
}

// ---- meshes -------------------------------------------------------------------------------------------------------------

TEST(Meshes, AMeshOfDeviceIdsHasTheirOrder) {
  const Mesh mesh({5, 4, 3, 2, 1, 0}, {2, 3}, {"data", "model"});
  EXPECT_EQ(mesh.size(), 6);
  EXPECT_EQ(mesh.shape(), (std::vector<MeshAxis>{{"data", 2}, {"model", 3}}));
  EXPECT_EQ(mesh.get_logical_mesh(), (std::vector<std::int64_t>{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(mesh.get_axis_name_idx("model"), 1);
  EXPECT_EQ(mesh.get_op_sharding({{}, "model"}), "{devices=[1,3,2]2,5,1,4,0,3 last_tile_dim_replicate}");
  EXPECT_EQ(Mesh({0, 1, 2, 3, 4, 5}, {2, 3}, {"data", "model"}), kGrid);
  EXPECT_EQ(Sharding::from_spec(Mesh({0, 1, 2, 3, 4, 5}, {2, 3}), {1, 0}, 2).str(), "{1,0}");
}

TEST(Meshes, TheDeviceIdsAreChecked) {
  const auto message = [](std::vector<std::int64_t> ids, std::vector<std::int64_t> shape,
                          std::vector<std::string> names) { return error_of([&] { (void)Mesh(ids, shape, names); }); };
  EXPECT_EQ(message({0, 1, 2}, {2, 2}, {}), "the mesh shape [2,2] needs 4 devices, but 3 device ids are given");
  EXPECT_EQ(message({0, 1, 1, 2}, {2, 2}, {}), "device 1 occurs twice in the device order");
  EXPECT_EQ(message({0, 1, 2, 4}, {2, 2}, {}), "device 4 is not one of 0..3");
  EXPECT_EQ(message({0, 1, 2, 3}, {2, 2}, {"x"}), "the mesh shape [2,2] has 2 axes, but 1 names are given: x");
  EXPECT_EQ(message({0, 1, 2, 3}, {2, 2}, {"x", "x"}), "mesh axis \"x\" is named twice");
  EXPECT_EQ(message({0, 1, 2, 3}, {4, 0}, {}), "the mesh shape [4,0] is not valid: each size must be at least 1");
}

TEST(Meshes, TheTextOfAMeshIsReadBack) {
  for (const Mesh& mesh : {kGrid, Mesh({3, 0, 2, 1}, {4}, {"x"}), Mesh({{"a", 1}, {"b", 7}})})
    EXPECT_EQ(Mesh::from_str(mesh.str()), mesh);
  EXPECT_EQ(Mesh::from_str("data=2,model=3"), kGrid);
  expect_message([] { (void)Mesh::from_str("mesh<a=2"); }, "expected mesh<axis=size, …>");
  expect_message([] { (void)Mesh::from_str("mesh<a=2> devices=[0,x]"); }, "\"x\" is not a device id");
}

TEST(Meshes, AHybridMeshKeepsItsMinorPartsWithinANode) {
  const HybridMesh mesh({.ici_mesh_shape = {1, 3},
                         .dcn_mesh_shape = {2, 1},
                         .axis_names = {"data", "model"},
                         .node_of_rank = {0, 1, 0, 1, 0, 1}});
  EXPECT_EQ(mesh.get_logical_mesh(), (std::vector<std::int64_t>{0, 2, 4, 1, 3, 5}));
  const HybridMesh both({.ici_mesh_shape = {2, 1},
                         .dcn_mesh_shape = {3, 1},
                         .axis_names = {"x", "y"},
                         .node_of_rank = {0, 0, 1, 1, 2, 2}});
  EXPECT_EQ(both.shape(), (std::vector<MeshAxis>{{"x", 6}, {"y", 1}}));
  EXPECT_EQ(both.get_logical_mesh(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  const HybridMesh crossed(
      {.ici_mesh_shape = {2, 1}, .dcn_mesh_shape = {1, 2}, .axis_names = {"x", "y"}, .node_of_rank = {0, 0, 1, 1}});
  EXPECT_EQ(crossed.get_logical_mesh(), (std::vector<std::int64_t>{0, 2, 1, 3}));
}

TEST(Meshes, AHybridMeshFitsTheNodes) {
  const FreshRank rank;
  plan_for_devices(4);
  EXPECT_EQ(HybridMesh({.ici_mesh_shape = {2, 2}, .axis_names = {"x", "y"}}).device_count(), 4);
  expect_message(
      [] {
        (void)HybridMesh({.ici_mesh_shape = {2, 1}, .dcn_mesh_shape = {1, 2}});
      },
      "dcn_mesh_shape [1,2] describes 2 node(s), but the ranks are on 1");
  expect_message(
      [] {
        (void)HybridMesh({.ici_mesh_shape = {2}, .node_of_rank = {0, 0, 1, 1}});
      },
      "the ranks are on 2 nodes, so dcn_mesh_shape is needed");
  expect_message(
      [] {
        (void)HybridMesh({.ici_mesh_shape = {3}, .dcn_mesh_shape = {2}, .node_of_rank = {0, 0, 1, 1}});
      },
      "describes 3 ranks on each node, but node 0 has 2");
  expect_message(
      [] {
        (void)HybridMesh({.ici_mesh_shape = {2}, .dcn_mesh_shape = {2, 1}, .node_of_rank = {0, 0, 1, 1}});
      },
      "need one size each for every axis");
}

TEST(Meshes, TheNodesOfTheRanksAreThoseOfTheJob) {
  const auto body = [](ProcessGroup& world) {
    join_world(world);
    EXPECT_EQ(node_of_ranks(), (std::vector<int>{0, 0, 1, 1, 1, 1}));
    expect_message([] { (void)HybridMesh({.ici_mesh_shape = {3}, .dcn_mesh_shape = {2}}); },
                   "describes 3 ranks on each node, but node 0 has 2");
  };
  run_virtual_ranks(6, body, {.node_of = [](int rank) { return rank < 2 ? 0 : 1; }});
}

TEST(Meshes, EachRankHasItsGlobalMesh) {
  on_ranks(3, [](int) {
    EXPECT_EQ(get_global_mesh(), get_1d_mesh());
    set_global_mesh(get_1d_mesh("ring"));
    EXPECT_EQ(get_global_mesh().str(), "mesh<ring=3>");
    expect_message([] { set_global_mesh(kGrid); }, "has 6 devices, but this job has 3");
  });
}

// ---- marks --------------------------------------------------------------------------------------------------------------

TEST(Marks, ACustomAnnotationMovesATensorToAnotherMesh) {
  on_ranks(6, [](int rank) {
    const Tensor x = Tensor::from<double>({7}, counting(7));
    mark_sharding(x, kGrid, {"model"});
    const Mesh ring = get_1d_mesh("ring");
    annotate_custom_sharding(x, ring, {"ring"});
    mark_step();
    EXPECT_EQ(x.sharding()->str(), "{ring}");
    EXPECT_EQ(x.local_shard().type().dim(0), 2);
    if (rank < 3) {
      EXPECT_EQ(x.local_shard().data<double>()[0], 2 * rank);
    }
    EXPECT_EQ(x.to_vector<double>(), counting(7));
  });
}

TEST(Marks, ShardAsGivesBothTensorsOneSharding) {
  const FreshRank rank;
  plan_for_devices(6);
  const Tensor x = Tensor::from<double>({4, 6}, counting(24));
  mark_sharding(x, kGrid, {"data", {}});
  const Tensor y = Tensor::from<double>({4, 6}, counting(24));
  const auto [a, b] = shard_as(exp(x), exp(y));
  const std::string program = print_program(plan_step().partitioned.program);
  EXPECT_EQ(program.find("f64[4,6]{1,0} exponential"), std::string::npos) << program;
  const auto first = program.find("f64[2,6]{1,0} exponential");
  ASSERT_NE(first, std::string::npos) << program;
  EXPECT_NE(first, program.rfind("f64[2,6]{1,0} exponential")) << program;
  expect_message([&] { (void)shard_as(x, sum(x)); }, "tensors of the same sharding need the same dims");
}

TEST(Marks, ShardAsKeepsValuesAndGradients) {
  on_ranks(6, [](int) {
    Tensor x = Tensor::from<double>({5}, counting(5));
    x.set_requires_grad();
    const Tensor y = Tensor::from<double>({5}, {2, 3, 4, 5, 6});
    mark_sharding(x, kGrid, {"model"});
    const auto [a, b] = shard_as(x, y);
    sum(a * b).backward();
    mark_step();
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 3, 4, 5, 6}));
    EXPECT_EQ(b.to_vector<double>(), y.to_vector<double>());
  });
}

// ---- placements ---------------------------------------------------------------------------------------------------------

TEST(DeviceTensors, PlacementsAndShardingsConvertIntoEachOther) {
  const Placements placements{Shard(1), Replicate()};
  EXPECT_EQ(sharding_of_placements(kGrid, placements, 2).str(), "{-,data}");
  EXPECT_EQ(placements_of(sharding_of_placements(kGrid, placements, 2)), placements);
  EXPECT_EQ(sharding_of_placements(kGrid, {Shard(-1), Shard(1)}, 2).str(), "{-,data+model}");
  EXPECT_EQ(placements_text({Shard(0), Partial()}), "[Shard(0), Partial(sum)]");
  expect_message(
      [] {
        (void)placements_of(Sharding::from_spec(kGrid, {{"model", "data"}}, 1));
      },
      "placements cannot express {model+data}");
  expect_message([] { (void)sharding_of_placements(kGrid, {Shard(0)}, 1); },
                 "mesh<data=2, model=3> has 2 axes, but 1 placements are given: [Shard(0)]");
  expect_message([] { (void)sharding_of_placements(kGrid, {Shard(2), Replicate()}, 2); }, "so there is no dim 2");
  expect_message(
      [] {
        (void)sharding_of_placements(kGrid, {Partial(), Replicate()}, 2);
      },
      "only from_local() takes Partial");
}

TEST(DeviceTensors, ADistributedTensorIsANewVariable) {
  on_ranks(6, [](int rank) {
    Tensor x = Tensor::from<double>({5, 7}, counting(35));
    x.set_requires_grad();
    const Tensor y = distribute_tensor(x, kGrid, {Shard(1), Shard(0)});
    EXPECT_FALSE(x.sharding().has_value());
    EXPECT_EQ(placements_of(y), (Placements{Shard(1), Shard(0)}));
    const Literal local = to_local(y);  // 5 rows over 3: 2, 2, 1; 7 columns over 2: 4, 3
    EXPECT_EQ(local.type().dims(), (Dims{rank % 3 == 2 ? 1 : 2, rank < 3 ? 4 : 3}));
    EXPECT_EQ(local.data<double>()[0], rank % 3 * 14 + rank / 3 * 4);
    sum(square(y)).backward();
    mark_step();
    EXPECT_TRUE(x.grad().is_null());
    EXPECT_EQ(y.grad().to_vector<double>()[34], 68);
  });
}

TEST(DeviceTensors, RedistributingKeepsTheValueAndTheGradient) {
  on_ranks(6, [](int) {
    Tensor x = Tensor::from<double>({5, 7}, counting(35));
    x.set_requires_grad();
    mark_sharding(x, kGrid, {"data", {}});
    const Tensor y = redistribute(x, kGrid, {Replicate(), Shard(1)});
    const Tensor z = full_tensor(y);
    sum(z * y).backward();
    mark_step();
    EXPECT_EQ(y.sharding()->str(), "{-,model}");
    EXPECT_TRUE(z.sharding()->is_replicated());
    EXPECT_EQ(y.to_vector<double>(), counting(35));
    EXPECT_EQ(x.grad().to_vector<double>()[17], 34);
  });
}

TEST(DeviceTensors, LocalArraysFormATensor) {
  on_ranks(6, [](int rank) {
    const auto part = [&](int rows) {
      return Literal::from<double>({rows, 1}, std::vector<double>(static_cast<std::size_t>(rows), rank));
    };
    const Tensor even = from_local(part(2), kGrid, {Shard(0), Shard(1)});
    EXPECT_EQ(even.dims(), (Dims{4, 3}));
    EXPECT_EQ(even.to_vector<double>(), (std::vector<double>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
    const Tensor uneven = from_local(part(rank < 3 ? 2 : 1), kGrid, {Shard(0), Shard(1)}, Dims{3, 3});
    EXPECT_EQ(uneven.to_vector<double>(), (std::vector<double>{0, 1, 2, 0, 1, 2, 3, 4, 5}));
    expect_message([&] { (void)from_local(part(5), kGrid, {Shard(0), Shard(1)}, Dims{3, 3}); }, "from_local: device ");
  });
}

TEST(DeviceTensors, PartialArraysAreReduced) {
  on_ranks(6, [](int rank) {
    const Literal mine = Literal::from<double>({2}, {1.0 + rank, 10.0 * rank});
    const Tensor sums = from_local(mine, kGrid, {Partial(), Shard(0)});
    EXPECT_EQ(sums.to_vector<double>(), (std::vector<double>{5, 30, 7, 50, 9, 70}));
    const Tensor largest = from_local(mine, kGrid, {Partial(Reduction::kMax), Partial()});
    EXPECT_EQ(largest.to_vector<double>(), (std::vector<double>{15, 120}));  // the sum over `model` of the maxima
    expect_message([&] { (void)from_local(mine, kGrid, {Partial(), Shard(0)}, Dims{5}); }, "unevenly and partial");
  });
}

TEST(DeviceTensors, AModuleIsDistributedByAFunctionOfItsModules) {
  const FreshRank rank;
  plan_for_devices(6);
  nn::Linear layer(4, 6);
  std::vector<std::string> visited;
  nn::distribute_module(layer, kGrid, [&](const std::string& name, nn::Module& module, const Mesh& mesh) {
    visited.push_back(name);
    mark_sharding(module.parameter("weight"), mesh, {{}, "data"});
  });
  EXPECT_EQ(visited, std::vector<std::string>{""});
  EXPECT_EQ(layer.weight().sharding()->str(), "{-,data}");
  EXPECT_EQ(layer.parameter("bias").sharding()->str(), "{-}");
  EXPECT_EQ(layer.parameter("bias").sharding()->mesh, kGrid);
}

// ---- views of shards ----------------------------------------------------------------------------------------------------

TEST(ShardedTensors, AViewDescribesTheShardOfTheRank) {
  on_ranks(6, [](int rank) {
    const Tensor x = Tensor::from<double>({5, 3}, counting(15));
    EXPECT_FALSE(wrap_if_sharded(x).has_value());
    mark_sharding(x, kGrid, {"model", {}});
    const ShardedTensor view = wrap_if_sharded(x).value();
    const auto shards = view.local_shards();
    ASSERT_EQ(shards.size(), 1U);
    const TensorShard& shard = shards.front();
    const int tile = rank % 3;
    EXPECT_EQ(shard.indices, (std::vector<Interval>{{tile * 2, tile == 2 ? 5 : tile * 2 + 2}, {0, 3}}));
    EXPECT_EQ(shard.shard_device, rank);
    EXPECT_EQ(shard.replica_id, rank / 3);
    EXPECT_EQ(shard.data.type().dims(), (Dims{2, 3}));
    EXPECT_EQ(shard.unpadded_data.type().dims(), (Dims{tile == 2 ? 1 : 2, 3}));
    for (int i = 0; i < isize(shard.unpadded_data.data<double>()); ++i)
      EXPECT_EQ(shard.unpadded_data.data<double>()[static_cast<std::size_t>(i)], tile * 6 + i);
    EXPECT_EQ(view.sharding_spec(), "{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}");
    EXPECT_EQ(view.sharding_type(), ShardingType::kPartial);
    EXPECT_EQ(view.placements(), (Placements{Replicate(), Shard(0)}));
    EXPECT_EQ(view.global().data<double>()[14], 14);
  });
}

TEST(ShardedTensors, LoadedShardsReplaceTheValue) {
  on_ranks(6, [](int) {
    const Tensor x = Tensor::from<double>({5}, counting(5));
    mark_sharding(x, kGrid, {"model"});
    ShardedTensor view(x);
    Literal shard = view.local_shards().front().unpadded_data;
    for (double& value : shard.mutable_data<double>()) value += 100;
    view.load_local_shards({shard});
    EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{100, 101, 102, 103, 104}));
    EXPECT_EQ(x.sharding()->str(), "{model}");
    expect_message([&] { view.load_local_shards({shard, shard}); }, "it passes one shard, got 2");
    expect_message([&] { view.load_local_shards({Literal::from<double>({7}, counting(7))}); },
                   "load_local_shards: device ");
  });
}

TEST(ShardedTensors, TypesOfShardingsHavePyTorchXlasNames) {
  const auto name = [](const PartitionSpec& spec, const Mesh& mesh) {
    return sharding_type_name(sharding_type(Sharding::from_spec(mesh, spec, 2)));
  };
  EXPECT_EQ(name({{}, {}}, kGrid), "REPLICATED");
  EXPECT_EQ(name({"data", {}}, kGrid), "PARTIAL");
  EXPECT_EQ(name({"data", "model"}, kGrid), "TILED");
  EXPECT_EQ(name({{"data", "model"}, {}}, kGrid), "TILED");
  EXPECT_EQ(name({"x", {}}, Mesh({{"x", 1}})), "MAXIMAL");
  EXPECT_EQ(sharding_type_name(sharding_type(Sharding::manual_everywhere(kGrid))), "MANUAL");
}

TEST(ShardedTensors, AShardingSpecAppliesToBatches) {
  on_ranks(3, [](int rank) {
    const ShardingSpec global{get_1d_mesh("data"), {"data", {}}};
    EXPECT_TRUE(global.can_apply(Type::array(DType::kF64, {5, 2})));
    EXPECT_FALSE(global.can_apply(Type::array(DType::kF64, {5})));
    EXPECT_FALSE((ShardingSpec{kGrid, {"data", {}}}.can_apply(Type::array(DType::kF64, {5, 2}))));
    EXPECT_EQ(global.tensor_of(Literal::from<double>({5, 2}, counting(10))).local_shard().type().dim(0), 2);
    const ShardingSpec parts{get_1d_mesh("data"), {"data"}, true};
    const double mine = rank;
    EXPECT_EQ(parts.tensor_of(Literal::from<double>({2}, {mine, mine})).to_vector<double>(),
              (std::vector<double>{0, 0, 1, 1, 2, 2}));
  });
}

}  // namespace
}  // namespace tessera

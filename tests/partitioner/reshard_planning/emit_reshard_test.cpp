// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

// Returns a per-device program with one parameter whose body `emit` builds.
template <class F>
Program program_of(std::int64_t devices, const Type& local, F&& emit) {
  ProgramBuilder program("test");
  Builder main = program.computation("main");
  const Value out = emit(main, ops::parameter(main, 0, local, "x"));
  program.program().num_partitions = devices;
  return program.finish(program.add(std::move(main), out));
}

TEST(EmitReshard, CollectivesNameTheirAxesAndKeepTheirNotes) {
  const Mesh mesh({{"data", 2}, {"model", 2}});
  const Type global = Type::array(DType::kF32, {8, 8});
  const Sharding from = Sharding::from_spec(mesh, {{"data", "model"}, {}}, 2);
  const ReshardPlan plan = plan_reshard(global, from, Sharding::replicated(mesh, 2));
  std::int64_t channel = 5;
  const Program program = program_of(4, shard_type(global, from), [&](Builder& main, Value x) {
    const NotesRef notes = with_frontend_attribute(nullptr, "tessera.reason", "because");
    return ReshardEmitter{main, channel, notes}.emit(x, plan);
  });
  const Computation& main = program.entry_computation();
  const Instruction& gather = main[main.root];
  EXPECT_EQ(gather.op->name, "all-gather");
  EXPECT_EQ(*gather.frontend_attribute("tessera.axes"), "data+model");
  EXPECT_EQ(*gather.frontend_attribute("tessera.reason"), "because");
  EXPECT_NE(print_program(program).find("channel_id=5, replica_groups=[1,4]<=[4]"), std::string::npos)
      << print_program(program);
  EXPECT_EQ(channel, 6);
}

TEST(EmitReshard, ACoordinateIsTheDevicesPositionInAnyMesh) {
  const Mesh meshes[] = {Mesh({{"x", 2}, {"y", 3}, {"z", 2}}), Mesh({{"x", 2}, {"y", 3}}, {3, 0, 5, 1, 4, 2}),
                         Mesh({{"x", 2}, {"y", 3}}, {0, 2, 4, 1, 3, 5})};
  for (const Mesh& mesh : meshes)
    for (const std::vector<AxisRef>& axes :
         {std::vector<AxisRef>{}, {{1, 1, 3}}, {{1, 1, 3}, {0, 1, 2}}, {{0, 1, 2}, {1, 1, 3}}}) {
      const auto devices = mesh.device_count();
      const Program program = program_of(devices, Type::scalar(DType::kS32),
                                         [&](Builder& main, Value) { return emit_coordinate(main, mesh, axes); });
      const std::vector<std::vector<Literal>> arguments(static_cast<std::size_t>(devices),
                                                        {Literal::scalar(std::int32_t{0})});
      const auto results = evaluate_lockstep(program, arguments);
      for (std::size_t d = 0; d < results.size(); ++d)
        EXPECT_EQ(element_as_int(results[d], 0), mesh.coordinate(mesh.position_of(static_cast<std::int64_t>(d)), axes))
            << mesh.str() << " device " << d;
    }
}

TEST(EmitReshard, AShuffledMeshIsLookedUpInNarrowIntegers) {
  const Mesh mesh({{"x", 2}, {"y", 3}}, {3, 0, 5, 1, 4, 2});
  const Program program = program_of(6, Type::scalar(DType::kS32), [&](Builder& main, Value) {
    return emit_coordinate(main, mesh, {{1, 1, 3}, {0, 1, 2}});
  });
  EXPECT_NE(print_program(program).find("s8[6]"), std::string::npos) << print_program(program);
  // A transposed mesh needs no table: its coordinates are computed arithmetically.
  const Mesh transposed({{"x", 2}, {"y", 3}}, {0, 2, 4, 1, 3, 5});
  const Program computed = program_of(6, Type::scalar(DType::kS32), [&](Builder& main, Value) {
    return emit_coordinate(main, transposed, {{1, 1, 3}});
  });
  EXPECT_EQ(print_program(computed).find("[6]"), std::string::npos) << print_program(computed);
}

TEST(EmitReshard, AMaskReplacesPaddingOnly) {
  const Mesh mesh({{"x", 2}, {"y", 3}});
  const Type global = Type::array(DType::kF32, {5, 7});
  const Sharding sharding = Sharding::from_spec(mesh, {{"x"}, {"y"}}, 2);
  const Type local = shard_type(global, sharding);
  std::vector<float> ones(35, 1.0F);
  const Literal value = Literal::from<float>({5, 7}, ones);
  const Program program = program_of(6, local, [&](Builder& main, Value x) {
    return emit_mask(main, x, global, sharding, {0, 1}, ops::scalar(main, DType::kF32, -4));
  });
  std::vector<std::vector<Literal>> arguments;
  for (std::int64_t d = 0; d < 6; ++d) arguments.push_back({take_shard(value, sharding, d, 0xFF)});
  const auto results = evaluate_lockstep(program, arguments);
  const Placement placement = placement_of(global, sharding);
  for (std::int64_t d = 0; d < 6; ++d)
    for (std::int64_t i = 0; i < 9; ++i) {
      const bool inside = i / 3 < placement.interval(d, 0).size() && i % 3 < placement.interval(d, 1).size();
      EXPECT_EQ(element_as_double(results[static_cast<std::size_t>(d)], i), inside ? 1 : -4) << d << " " << i;
    }
}

TEST(EmitReshard, AnEvenShardingNeedsNoMask) {
  const Mesh mesh({{"x", 2}});
  const Type global = Type::array(DType::kF32, {4});
  const Sharding sharding = Sharding::from_spec(mesh, {{"x"}}, 1);
  const Program program = program_of(2, shard_type(global, sharding), [&](Builder& main, Value x) {
    return emit_mask(main, x, global, sharding, {0}, ops::scalar(main, DType::kF32, 0));
  });
  EXPECT_EQ(program.entry_computation().root, 0);
}

}  // namespace
}  // namespace tessera

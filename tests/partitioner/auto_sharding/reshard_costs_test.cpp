// SPDX-License-Identifier: Apache-2.0
// The costs of reshards in decision graphs, compared with plans for each pair of shardings.
#include <gtest/gtest.h>

#include "auto_sharding/op_choices.h"
#include "auto_sharding/reshard_costs.h"
#include "support/sanitizers.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

// Pairs of all shardings over full axes; the first one is also partial over axes that it does not use.
void expect_costs_of_plans(const Mesh& mesh, const MachineModel& machine, const std::vector<Type>& types) {
  ReshardCosts costs(mesh, machine);
  std::int64_t pairs = 0;
  for (const Type& type : types) {
    const std::vector<Sharding> all = storage_choices(mesh, type);
    std::vector<Sharding> sources = all;
    for (const Sharding& one : all)
      for (int a = 0; a < mesh.axis_count(); ++a) {
        if (overlaps_any(one.used_axes(), mesh.full_axis(a))) continue;
        sources.push_back(one);
        sources.back().partial = {mesh.full_axis(a)};
      }
    for (const Sharding& from : sources)
      for (const Sharding& to : all) {
        const double planned = machine.seconds_of_moved(reshard_cost(type, from, to, machine.links()));
        EXPECT_NEAR(costs.seconds(type, costs.id_of(from), costs.id_of(to)), planned, 1e-12 * planned)
            << type.str() << " " << from.str() << " -> " << to.str() << " over " << mesh.str();
        ++pairs;
      }
  }
  EXPECT_LT(2 * costs.planned(), pairs);
}

Type floats(Dims dims) { return Type::array(DType::kF32, std::move(dims)); }

TEST(ReshardCosts, AreThoseOfPlans) {
  for (const char* preset : testing::cases_of<const char*>({"uniform", "cpu-node"}))
    expect_costs_of_plans(Mesh({{"x", 2}, {"y", 2}}), MachineModel::load(preset),
                          {floats({16, 8, 12}), floats({12, 16, 8}), floats({32, 48}), floats({48, 32}),
                           floats({6, 5, 8}), Type::array(DType::kBF16, {32, 96})});
}

TEST(ReshardCosts, AxesOfDifferentSizesAreDifferent) {
  expect_costs_of_plans(Mesh({{"x", 2}, {"y", 3}}), MachineModel::load("cpu-node"),
                        {floats({12, 18}), floats({18, 12}), floats({36, 6}), floats({5, 7})});
}

TEST(ReshardCosts, AxesWithDifferentLinksAreDifferent) {
  MachineModel machine = MachineModel::load("cpu-node");
  Topology links = machine.links();
  links.set_link("x", {50e-6, 1e9});
  machine.set_links(links);
  expect_costs_of_plans(Mesh({{"x", 2}, {"y", 2}}), machine, {floats({16, 24}), floats({24, 16}), floats({8, 48})});
}

TEST(ReshardCosts, ThreeAxes) {
  expect_costs_of_plans(Mesh({{"x", 2}, {"y", 2}, {"z", 2}}), MachineModel::load("cpu-node"),
                        {floats({16, 24}), floats({24, 16}), floats({8, 48})});
}

TEST(ReshardCosts, ATableHasOneEntryForEachPairOfChoices) {
  const Mesh mesh({{"x", 2}});
  const MachineModel machine;
  ReshardCosts costs(mesh, machine);
  const Type type = floats({4, 6});
  const int rows = costs.id_of(Sharding::from_spec(mesh, {"x", {}}, 2));
  const int replicated = costs.id_of(Sharding::replicated(mesh, 2));
  const double gather = costs.seconds(type, rows, replicated);
  EXPECT_GT(gather, 0);
  EXPECT_EQ(costs.table(type, {rows, replicated, rows}, {replicated, rows}),
            (std::vector<double>{gather, 0, 0, 0, gather, 0}));
  EXPECT_TRUE(costs.table(type, {replicated, replicated}, {rows}).empty());
}

}  // namespace
}  // namespace tessera

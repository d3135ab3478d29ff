// SPDX-License-Identifier: Apache-2.0
// Plans as text: what the planner chooses in cases whose best answer can be argued by hand.
#include "tessera/partitioner/plan_reshard.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// `data,-` or `data,- sum model` (partial over model).
Sharding sharding_of(const Mesh& mesh, std::string_view text) {
  const auto blank = text.find(' ');
  const PartitionSpec spec = PartitionSpec::parse(text.substr(0, blank));
  Sharding out = Sharding::from_spec(mesh, spec, static_cast<int>(spec.entries().size()));
  if (blank == std::string_view::npos) return out;
  text.remove_prefix(blank + 1);
  const auto space = text.find(' ');
  for (int r = 0; r < 6; ++r)
    if (reduction_name(static_cast<Reduction>(r)) == text.substr(0, space)) out.reduction = static_cast<Reduction>(r);
  const PartitionSpec axes = PartitionSpec::parse(text.substr(space + 1));
  out.partial = Sharding::from_spec(mesh, axes, 1).dims[0].axes;
  return out;
}

struct Case {
  const char* mesh;
  Dims dims;  // of f32
  const char* from;
  const char* to;
  const char* plan;
};

void expect_plans(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Mesh mesh = Mesh::parse(c.mesh);
    const Type global = Type::array(DType::kF32, c.dims);
    const ReshardPlan plan = plan_reshard(global, sharding_of(mesh, c.from), sharding_of(mesh, c.to));
    EXPECT_EQ(plan.str(), c.plan) << global.str() << " " << c.from << " -> " << c.to << " on " << c.mesh;
  }
}

TEST(PlanReshard, OneStepWhereOneStepIsEnough) {
  expect_plans({
      {"x=2,y=4", {8, 16}, "x,-", "x,-", "nothing"},
      {"x=2,y=4", {8, 16}, "-,-", "x,y", "slice{x+y}(0,1)"},
      {"x=2,y=4", {8, 16}, "x,y", "x,-", "all_gather{y}(1) 192 B"},
      {"x=2,y=4", {8, 16}, "y,-", "-,y", "all_to_all{y}(0->1) 96 B"},
      {"x=2,y=4", {8, 16}, "-,- sum y", "-,-", ""},
      {"x=2,y=4", {8, 16}, "x,- sum y", "x,-", "all_reduce{y} 384 B"},
      {"x=2,y=4", {8, 16}, "x,- sum y", "x+y,-", "reduce_scatter{y}(0) 192 B"},
      {"x=2,y=4", {8, 16}, "x,- sum y", "x,y", "reduce_scatter{y}(1) 192 B"},
      {"x=2,y=4", {8, 16}, "x+y,-", "y+x,-", "permute{x+y} 64 B"},
      {"x=2,y=4", {8, 16}, "x+y,-", "-,y+x", ""},
      {"x=2,y=4", {8, 16}, "x,-", "x,- sum y", "partialize{y}"},
      {"a=2,b=2,c=2", {8, 16}, "a,-", "b,-", ""},
      {"a=2,b=2,c=2", {8, 16}, "a+b,-", "b,a", ""},
      {"x=2,y=4", {10, 16}, "x+y,-", "x,-", ""},
      {"x=2,y=2", {1, 16}, "x+y,-", "-,-", ""},
      {"x=2,y=4", {50257, 64}, "x+y,-", "x,-", ""},
      {"x=2,y=4", {50257, 64}, "x,-", "x+y,-", ""},
      {"x=2,y=4", {50257, 64}, "x+y,-", "y,-", ""},
      {"x=2,y=3", {8, 16}, "x,y", "y,x", ""},
      {"x=2,y=3", {12, 12}, "x,y", "y,x", ""},
      {"x=2,y=3", {8, 12}, "x,- max y", "x,y sum -", ""},
  });
}

}  // namespace
}  // namespace tessera

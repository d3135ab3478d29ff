// SPDX-License-Identifier: Apache-2.0
// Priorities of annotated dims: lower numbers propagate first.
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"

namespace tessera {
namespace {

Program sum_of(const std::string& a, const std::string& a_spec, const std::string& b, const std::string& b_spec) {
  Program program = parse_program(
      "HloModule m, allow_spmd_sharding_propagation_to_output={true}\nENTRY main {\n"
      "a = f32[12,6] parameter(0) b = f32[12,6] parameter(1) s = f32[12,6] add(a, b) ROOT r = f32[12,6] tanh(s) }",
      op_table());
  const Mesh mesh = Mesh::parse("x=2,y=3");
  program.num_partitions = 6;
  program.meshes = {mesh};
  return annotate(annotate(program, mesh, a, a_spec), mesh, b, b_spec);
}

std::string sharding_of_sum(const Program& program) {
  EXPECT_TRUE(check_partition(program).passed);
  const Program global = partition(program).global;
  for (const auto& instruction : global.entry_computation().instructions)
    if (instruction.name == "s") return instruction.sharding->front().closed().str();
  return "none";
}

TEST(Priority, TheLowerNumberDecidesIfTwoAnnotationsConflict) {
  EXPECT_EQ(sharding_of_sum(sum_of("a", "x@p1,-", "b", "y,-")), "{y,-}");
  EXPECT_EQ(sharding_of_sum(sum_of("a", "x,-", "b", "y@p1,-")), "{x,-}");
  EXPECT_EQ(sharding_of_sum(sum_of("a", "x@p2,-", "b", "y@p1,-")), "{y,-}");
  EXPECT_EQ(sharding_of_sum(sum_of("a@p1", "x,-", "b@p2", "y,-")), "{x,-}");
  EXPECT_EQ(sharding_of_sum(sum_of("a@p1", "x,-", "b@p2", "y@p0,-")), "{y,-}");
}

TEST(Priority, EachDimMayHaveAPriority) {
  EXPECT_EQ(sharding_of_sum(sum_of("a", "x@p1,-", "b", "-,y@p2")), "{x,y}");
  EXPECT_EQ(sharding_of_sum(sum_of("a", "x@p2,y", "b", "y@p1,x@p3")), "{x,y}");
}

TEST(Priority, AxesThatALaterDimWillUseAreNotTaken) {
  // In round 0, dim 1 of a is open and could take x from b. But dim 0 of a will use x.
  const Program program = sum_of("a", "x@p1,?", "b", "-,x");
  EXPECT_TRUE(check_partition(program).passed);
  const Program global = partition(program).global;
  EXPECT_EQ(global.entry_computation()[0].sharding->front().str(), "{x,-}");
}

TEST(Priority, IsReadInBothForms) {
  const Mesh mesh = Mesh::parse("x=2,y=3");
  const Program by_text = parse_program(
      "HloModule m, num_partitions=6, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, \"y\"=3]>}}\n"
      "ENTRY main { ROOT a = f32[12,6] parameter(0), "
      "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [{\\\"x\\\"}p1, {?}p2]>\"} }",
      op_table());
  const Program plain = parse_program("HloModule m\nENTRY main { ROOT a = f32[12,6] parameter(0) }", op_table());
  const auto by_name = annotate(plain, mesh, "a", "x@p1,?@p2").entry_computation()[0].sharding->front();
  EXPECT_EQ(by_text.entry_computation()[0].sharding->front().dims, by_name.dims);
  EXPECT_EQ(by_name.str(), "{x@p1,-?@p2}");
}

TEST(Priority, AWrongPriorityIsAnErrorWithTheCorrectForm) {
  const Mesh mesh = Mesh::parse("x=2");
  const Program plain = parse_program("HloModule m\nENTRY main { ROOT a = f32[12,6] parameter(0) }", op_table());
  for (const auto* wrong : {"x@1,-", "x@p,-", "x@p-1,-", "x@p1000001,-", "x@,-"})
    EXPECT_THROW(annotate(plain, mesh, "a", wrong), Error);
  EXPECT_THROW(annotate(plain, mesh, "a@x", "x,-"), Error);
}

TEST(Propagation, AxesOfOneMeshDoNotReachValuesOnAnother) {
  // 2x3 and 3x2 tiles of six devices have no common mesh.
  for (const auto* two :
       {"{devices=[3,1,2]<=[6] last_tile_dim_replicate}", "{devices=[3,1,2]<=[6] last_tile_dims={unreduced}}",
        "{devices=[1,3,2]<=[2,3]T(1,0) last_tile_dim_replicate}"})
    for (const bool swapped : {false, true}) {
      const std::string one = "{devices=[2,3]<=[6]}";
      const Program program = parse_program(
          "HloModule m, num_partitions=6\nENTRY e { a = f32[6,10] parameter(0) b = f32[10,5] parameter(1)\n"
          "k = f32[6,10] sine(a), sharding=" +
              (swapped ? two : one) + "\n" +
              "d = f32[6,5] dot(k, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding=" +
              (swapped ? one : two) + "\n" + "ROOT t = (f32[6,5], f32[6,10]) tuple(d, k) }",
          op_table());
      EXPECT_TRUE(check_partition(program).passed) << two;
    }
}

}  // namespace
}  // namespace tessera

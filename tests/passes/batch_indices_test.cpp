// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters whose indices count along one of their dims.
#include "tessera/passes/batch_indices.h"

#include "passes/expect_pass.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/indexing.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

using namespace passes_tests;  // NOLINT(google-build-using-namespace)

// x[arange(6), ids]: one element of each row.
constexpr std::string_view kPick = R"(
HloModule m
ENTRY %main (x: f32[6,7], ids: s32[6]) -> f32[6] {
  %x = f32[6,7] parameter(0)
  %ids = s32[6] parameter(1)
  %rows = s32[6,1] iota(), iota_dimension=0
  %columns = s32[6,1] reshape(%ids)
  %both = s32[6,2] concatenate(%rows, %columns), dimensions={1}
  ROOT %y = f32[6] gather(%x, %both), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},
    index_vector_dim=1, slice_sizes={1,1}
})";

// The same with the iota second, through a broadcast, a select for negative indices and a conversion; [5,3] picks
// from an operand [4,3,9].
constexpr std::string_view kPickSecond = R"(
HloModule m
ENTRY %main (x: f32[4,3,9], ids: s32[5,3]) -> f32[5,3,9] {
  %x = f32[4,3,9] parameter(0)
  %ids = s32[5,3] parameter(1)
  %first = s32[5,3,1] reshape(%ids)
  %count = s16[3] iota(), iota_dimension=0
  %wide = s32[3] convert(%count)
  %zero = s32[] constant(0)
  %zeros = s32[3] broadcast(%zero), dimensions={}
  %negative = pred[3] compare(%wide, %zeros), direction=LT
  %three = s32[] constant(3)
  %threes = s32[3] broadcast(%three), dimensions={}
  %wrapped = s32[3] add(%wide, %threes)
  %positive = s32[3] select(%negative, %wrapped, %wide)
  %second = s32[5,3,1] broadcast(%positive), dimensions={1}
  %both = s32[5,3,2] concatenate(%first, %second), dimensions={2}
  ROOT %y = f32[5,3,9] gather(%x, %both), offset_dims={2}, collapsed_slice_dims={0,1}, start_index_map={0,1},
    index_vector_dim=2, slice_sizes={1,1,9}
})";

// x.at[arange(6), ids].add(u)
constexpr std::string_view kAdd = R"(
HloModule m
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (x: f32[6,7], ids: s32[6], u: f32[6]) -> f32[6,7] {
  %x = f32[6,7] parameter(0)
  %ids = s32[6] parameter(1)
  %u = f32[6] parameter(2)
  %rows = s32[6,1] iota(), iota_dimension=0
  %columns = s32[6,1] reshape(%ids)
  %both = s32[6,2] concatenate(%rows, %columns), dimensions={1}
  ROOT %y = f32[6,7] scatter(%x, %both, %u), update_window_dims={}, inserted_window_dims={0,1},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=%add
})";

std::string with_replaced(std::string_view text, const std::string& what, const std::string& with) {
  std::string out(text);
  for (auto at = out.find(what); at != std::string::npos; at = out.find(what, at + with.size()))
    out.replace(at, what.size(), with);
  return out;
}

const Instruction& root_of(const Program& program) {
  return program.entry_computation()[program.entry_computation().root];
}

std::int64_t batch_dims_of(const Program& program) {
  const Instruction& root = root_of(program);
  return root.op->name == "gather" ? isize(attributes_as<GatherAttributes>(root.attributes).operand_batching_dims)
                                   : isize(attributes_as<ScatterAttributes>(root.attributes).input_batching_dims);
}

TEST(BatchIndices, ACountBecomesABatchDimAndValuesStay) {
  for (const std::string_view text : {kPick, kPickSecond, kAdd}) {
    const Program before = parsed(text);
    const Program after = batch_indices(before);
    verify(after);
    EXPECT_EQ(batch_dims_of(after), 1) << print_program(after);
    const auto arguments = seeded_arguments(before, 3);  // ids are within and outside of the operand
    EXPECT_EQ(evaluate(after, arguments), evaluate(before, arguments));
  }
}

TEST(BatchIndices, BothComponentsOfADiagonalAreNotReplaced) {
  // The second count stays an index: an index vector without components would remain.
  const Program after = batch_indices(parsed(R"(
HloModule m
ENTRY %main (x: f32[5,5]) -> f32[5] {
  %x = f32[5,5] parameter(0)
  %count = s32[5,1] iota(), iota_dimension=0
  %both = s32[5,2] concatenate(%count, %count), dimensions={1}
  ROOT %y = f32[5] gather(%x, %both), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},
    index_vector_dim=1, slice_sizes={1,1}
})"));
  verify(after);
  EXPECT_EQ(batch_dims_of(after), 1);
  const auto arguments = seeded_arguments(after, 1);
  const Literal diagonal = evaluate(after, arguments);
  for (std::int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(element_as_double(diagonal, i), element_as_double(arguments[0], 6 * i));
}

TEST(BatchIndices, OtherCountsStay) {
  // 6 of 8 rows; a count that starts at another index; numbers that do not fit the type.
  expect_unchanged(batch_indices, with_replaced(kPick, "[6,7]", "[8,7]"));
  expect_unchanged(batch_indices, with_replaced(kPick, "%rows = s32[6,1] iota(), iota_dimension=0",
                                                "%rows = s32[6,1] iota(), iota_dimension=1"));
  expect_unchanged(batch_indices, R"(
HloModule m
ENTRY %main (x: f32[200,7], ids: s8[200,1]) -> f32[200] {
  %x = f32[200,7] parameter(0)
  %ids = s8[200,1] parameter(1)
  %rows = s8[200,1] iota(), iota_dimension=0
  %both = s8[200,2] concatenate(%rows, %ids), dimensions={1}
  ROOT %y = f32[200] gather(%x, %both), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},
    index_vector_dim=1, slice_sizes={1,1}
})");
}

TEST(BatchIndices, ABatchIsShardedWithoutCommunication) {
  const Mesh mesh = Mesh::parse("data=3,model=2");
  for (const std::string_view text : {kPick, kAdd}) {
    Program program = parsed(text);
    program.num_partitions = 6;
    program.meshes = {mesh};
    program = annotate(program, mesh, "x", "data,-");
    program = annotate(program, mesh, "ids", "data");
    if (text == kAdd) program = annotate(program, mesh, "u", "data");
    program = annotate(program, mesh, "y", text == kAdd ? "data,-" : "data");
    const Partitioned parts = partition(program);
    EXPECT_TRUE(parts.notes.empty()) << print_program(parts.program);
    EXPECT_TRUE(check_partition(program).passed);
  }
}

}  // namespace
}  // namespace tessera

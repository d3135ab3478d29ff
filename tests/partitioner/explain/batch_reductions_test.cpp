// SPDX-License-Identifier: Apache-2.0
// Explanations of sums over a batch, which no annotation can avoid, must differ from those of other sums.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

// A training step of y = x w with a sharded batch.
TEST(BatchSums, NoRemedyAvoidsTheSumOverABatch) {
  const Program program = parse_program(R"(HloModule m, num_partitions=2
ENTRY %main (x: f32[8,6], t: f32[8,4], w: f32[6,4]) -> f32[6,4] {
  %x = f32[8,6] parameter(0), sharding={devices=[2,1]<=[2]}
  %t = f32[8,4] parameter(1), sharding={devices=[2,1]<=[2]}
  %w = f32[6,4] parameter(2)
  %y = f32[8,4] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %d = f32[8,4] subtract(%y, %t)
  %g = f32[6,4] dot(%x, %d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT %new = f32[6,4] subtract(%w, %g)
})",
                                        op_table());
  const auto notes = partition(program, {.try_remedies = true}).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].remedy.text(),
            "none: it is the sum over the batch (dim 0 of %x) that data parallelism over {_0} needs");
}

// A sum over a hidden layer that the weights shard is not a sum over a batch, neither in the forward nor in the
// backward pass.
TEST(BatchSums, TheSumOverAShardedHiddenLayerIsNotABatchSum) {
  const Program program = parse_program(R"(HloModule m, num_partitions=2
ENTRY %main (x: f32[8,6], u: f32[6,4], v: f32[4,6]) -> (f32[8,6], f32[6,4], f32[4,6]) {
  %x = f32[8,6] parameter(0)
  %u = f32[6,4] parameter(1), sharding={devices=[1,2]<=[2]}
  %v = f32[4,6] parameter(2), sharding={devices=[2,1]<=[2]}
  %h = f32[8,4] dot(%x, %u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %y = f32[8,6] dot(%h, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %dh = f32[8,4] dot(%y, %v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %ds = f32[8,4] multiply(%dh, %h)
  %dx = f32[8,6] dot(%ds, %u), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %du = f32[6,4] dot(%x, %ds), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %dv = f32[4,6] dot(%h, %y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT %out = (f32[8,6], f32[6,4], f32[4,6]) tuple(%dx, %du, %dv)
})",
                                        op_table());
  const auto notes = partition(program, {.try_remedies = true}).notes;
  std::size_t sums = 0;
  for (const auto& note : notes) {
    EXPECT_EQ(note.remedy.text().find("batch"), std::string::npos) << note.remedy.text();
    sums += note.remedy.text().starts_with("do not shard the dims") ? 1 : 0;
  }
  EXPECT_EQ(sums, 2U);
}

// The gradient of a sum starts with ones, which depend on no input.
TEST(BatchSums, TheSumOverABatchWithConstantOnesIsABatchSum) {
  const Program program = parse_program(R"(HloModule m, num_partitions=2
ENTRY %main (x: f32[8,6], w: f32[6,4]) -> f32[6,4] {
  %x = f32[8,6] parameter(0), sharding={devices=[2,1]<=[2]}
  %w = f32[6,4] parameter(1)
  %c = f32[] constant(1)
  %ones = f32[8,4] broadcast(%c), dimensions={}
  %g = f32[6,4] dot(%x, %ones), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT %next = f32[6,4] subtract(%w, %g)
})",
                                        op_table());
  const auto notes = partition(program, {.try_remedies = true}).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].remedy.text().starts_with("none: it is the sum over the batch (dim 0 of %x)"))
      << notes[0].remedy.text();
}

// A dynamic-slice takes one layer of a sharded stack: the sum selects the value of one device, and is not over a batch.
TEST(BatchSums, ALayerSlicedOutOfAShardedStackIsNotABatch) {
  const Program program = parse_program(R"(HloModule m, num_partitions=3
ENTRY %main (ws: f32[3,4,5], x: f32[6,4], i: s32[]) -> f32[6,5] {
  %ws = f32[3,4,5] parameter(0), sharding={devices=[3,1,1]<=[3]}
  %x = f32[6,4] parameter(1)
  %i = s32[] parameter(2)
  %z = s32[] constant(0)
  %one = f32[1,4,5] dynamic-slice(%ws, %i, %z, %z), dynamic_slice_sizes={1,4,5}
  %w = f32[4,5] reshape(%one)
  ROOT %y = f32[6,5] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                                        op_table());
  const auto notes = partition(program, {.try_remedies = true}).notes;
  ASSERT_FALSE(notes.empty());
  for (const auto& note : notes) EXPECT_EQ(note.remedy.text().find("batch"), std::string::npos) << note.remedy.text();
}

TEST(BatchSums, OnlyTheBatchAxesOfALargerSumAreReportedAsNeeded) {
  const Program program = parse_program(R"(HloModule m, num_partitions=4
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (x: f32[8,6], w: f32[6,4]) -> (f32[], f32[6,4]) {
  %x = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  %w = f32[6,4] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  %y = f32[8,4] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %zero = f32[] constant(0)
  %loss = f32[] reduce(%y, %zero), dimensions={0,1}, to_apply=%sum
  ROOT %out = (f32[], f32[6,4]) tuple(%loss, %w)
})",
                                        op_table());
  const auto notes = partition(program, {.try_remedies = true}).notes;
  const auto loss = std::find_if(notes.begin(), notes.end(), [](const auto& n) { return n.opcode == "all-reduce"; });
  ASSERT_NE(loss, notes.end());
  EXPECT_EQ(loss->remedy.text(),
            "none: it is the sum over the batch (dim 0 of %x) that data parallelism over {_0} needs; remove {_1} from "
            "the dims that reduce %loss sums over");
}

TEST(BatchSums, RowsOfAShardedTableAreNotABatch) {
  const Program program = parse_program(R"(HloModule m, num_partitions=2
ENTRY main {
  table = f32[100,8] parameter(0), sharding={devices=[2,1]<=[2]}
  ids = s32[6,1] parameter(1)
  ROOT rows = f32[6,8] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
      index_vector_dim=1, slice_sizes={1,8}
})",
                                        op_table());
  const auto notes = partition(program, {.try_remedies = true}).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].remedy.text().starts_with("do not shard the dims that gather %rows sums over"))
      << notes[0].remedy.text();
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// What explanations say about the next best way to compute an op.
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

// x is sharded by rows, and the result by columns, of which there are `columns`.
std::vector<CollectiveNote> notes_for_columns(std::int64_t columns, const PartitionOptions& options) {
  Program program = parse_program(
      fmt::format("HloModule m\nENTRY main {{\n x = f32[8,16] parameter(0) w = f32[16,{0}] parameter(1)\n"
                  " ROOT y = f32[8,{0}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}",
                  columns),
      op_table());
  program.num_partitions = 2;
  const Mesh mesh({{"data", 2}});
  program.meshes = {mesh};
  program = annotate(annotate(program, mesh, "x", "data,-"), mesh, "y", "-,data");
  return partition(program, options).notes;
}

// The op is computed by columns and gathers x (256 bytes), or by rows and exchanges the result (16 bytes per column).
TEST(NextBest, IsTheOtherShardingOfTheOperandsWithItsCost) {
  const auto notes = notes_for_columns(64, {.try_remedies = true});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].opcode, "all-gather");
  EXPECT_EQ(notes[0].bytes, 256);
  EXPECT_EQ(notes[0].next, "operands {data,-}, {-,-}: costs 256 bytes more");
}

TEST(NextBest, MayExplainACollectiveOfTheResult) {
  const auto notes = notes_for_columns(8, {.try_remedies = true});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].opcode, "all-to-all");
  EXPECT_EQ(notes[0].bytes, 64);
  EXPECT_EQ(notes[0].next, "operands {-,-}, {-,data}: costs 192 bytes more");
}

TEST(NextBest, IsInMillisecondsIfLinksHaveALatency) {
  PartitionOptions options{.try_remedies = true};
  options.machine = MachineModel::load("cpu-node");
  const auto notes = notes_for_columns(4096, options);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].next.starts_with("operands {data,-}, {-,-}: takes ")) << notes[0].next;
  EXPECT_TRUE(notes[0].next.ends_with(" ms more (modelled)")) << notes[0].next;
}

TEST(NextBest, IsOnlyFoundForExplanations) { EXPECT_EQ(notes_for_columns(64, {}).front().next, ""); }

// The result of the program must be replicated; no op requires it.
TEST(NextBest, IsMissingIfNoOpRequiresTheCollective) {
  const Program program = parse_program(
      "HloModule m, num_partitions=2\nENTRY main { x = f32[8] parameter(0), sharding={devices=[2]<=[2]} ROOT y = "
      "f32[8] "
      "tanh(x) }",
      op_table());
  const auto notes = partition(program, {.try_remedies = true}).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].next, "");
}

TEST(NextBest, ExplainingDoesNotChangeTheProgram) {
  for (const std::int64_t columns : {8, 64, 4096}) {
    const auto with = notes_for_columns(columns, {.try_remedies = true});
    const auto without = notes_for_columns(columns, {});
    ASSERT_EQ(with.size(), without.size());
    for (std::size_t i = 0; i < with.size(); ++i) {
      EXPECT_EQ(with[i].opcode, without[i].opcode);
      EXPECT_EQ(with[i].bytes, without[i].bytes);
      EXPECT_EQ(with[i].reason, without[i].reason);
    }
  }
}

}  // namespace
}  // namespace tessera

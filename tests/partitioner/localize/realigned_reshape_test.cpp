// SPDX-License-Identifier: Apache-2.0
// Reshapes over uneven tiles: only the rows at tile boundaries are sent, and values are right on any number of devices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

struct ReshapeCase {
  const char* from;
  const char* to;
  const char* before;  // the operand's sharding
  const char* after;   // the result's
  std::int64_t devices;
  std::int64_t bytes;  // received by one device
};
std::ostream& operator<<(std::ostream& out, const ReshapeCase& c) {
  return out << c.from << " " << c.before << " -> " << c.to << " " << c.after;
}

class RealignedReshapes : public ::testing::TestWithParam<ReshapeCase> {};

TEST_P(RealignedReshapes, SendOnlyElementsBeyondATileBoundary) {
  const ReshapeCase& c = GetParam();
  const std::string text = fmt::format(
      "HloModule m, num_partitions={}\nENTRY e {{\n  x = {} parameter(0), sharding={}\n  n = {} negate(x)\n"
      "  r = {} reshape(n)\n  ROOT s = {} sine(r), sharding={}\n}}\n",
      c.devices, c.from, c.before, c.from, c.to, c.to, c.after);
  const Program program = parse_program(text, op_table());
  const CheckReport report = check_partition(program);
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  const ProgramStats stats = program_stats(partition(program).program);
  EXPECT_EQ(stats.total_collective_bytes, c.bytes) << print_program(partition(program).program);
}

// The bytes are computed by hand: tile i of `from` ends at i times its length, and so does tile i of `to` with its
// length. The result is the most elements that a device lacks.
INSTANTIATE_TEST_SUITE_P(
    All, RealignedReshapes,
    ::testing::Values(
        // tiles of 9 and of 8 elements: the second device lacks one element
        ReshapeCase{"f32[5,3]", "f32[15]", "{devices=[2,1]<=[2]}", "{devices=[2]<=[2]}", 2, 4},
        // tiles of 8 and of 9 elements: the first device lacks one element
        ReshapeCase{"f32[15]", "f32[5,3]", "{devices=[2]<=[2]}", "{devices=[2,1]<=[2]}", 2, 4},
        // rows of 2 columns; 9, 9, 3 rows become 7, 7, 7: the third device lacks 4 rows
        ReshapeCase{"f32[7,3,2]", "f32[21,2]", "{devices=[3,1,1]<=[3]}", "{devices=[3,1]<=[3]}", 3, 32},
        // tiles of 24 elements on both sides, the last of 12
        ReshapeCase{"f32[13,12]", "f32[78,2]", "{devices=[7,1]<=[7]}", "{devices=[7,1]<=[7]}", 7, 0},
        // the sharding of the columns stays; 6 and 3 rows of 4 columns become 5 and 4
        ReshapeCase{"f32[3,3,8]", "f32[9,8]", "{devices=[2,1,2]<=[4]}", "{devices=[2,2]<=[4]}", 4, 16},
        // devices in another order; 5 rows of 10 become 10 rows of 5: 20, 20, 10 elements become 20, 20, 10
        ReshapeCase{"f32[5,10]", "f32[10,5]", "{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}",
                    "{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}", 6, 0},
        // two groups of dims: 6, 6, 3 rows of 9 elements become 5, 5, 5 rows; then 9 columns become 8, for 5 rows
        ReshapeCase{"f32[5,3,5,3]", "f32[15,15]", "{devices=[3,1,2,1]<=[6]}", "{devices=[3,2]<=[6]}", 6, 92}));

TEST(RealignedReshape, HasARemedyThatNamesTheSize) {
  const Program program = parse_program(
      "HloModule m, num_partitions=2\nENTRY e {\n  x = f32[5,3] parameter(0), sharding={devices=[2,1]<=[2]}\n"
      "  ROOT r = f32[15] reshape(x), sharding={devices=[2]<=[2]}\n}\n",
      op_table());
  const auto notes = partition(program, {.try_remedies = true}).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].remedy.text(), "make the first of the dims that are merged or split a multiple of 2");
}

// If the result had more tiles than rows, some devices would have no work.
TEST(RealignedReshape, IsNotUsedIfDevicesWouldHaveNoElements) {
  const Program program = parse_program(
      "HloModule m, num_partitions=4\nENTRY e {\n  x = f32[14] parameter(0), sharding={devices=[4]<=[4]}\n"
      "  ROOT r = f32[2,7] reshape(x)\n}\n",
      op_table());
  EXPECT_TRUE(check_partition(program).passed);
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// dynamic-update-slice along sharded dims: the operand stays, and every device writes its part of the update.
#include <gtest/gtest.h>

#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

Program update_of(const std::string& array, const std::string& update) {
  return parse_program(fmt::format(R"(HloModule m
ENTRY main {{
  x = {0} parameter(0)
  u = {1} parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT y = {0} dynamic-update-slice(x, u, i, j)
}})",
                                   array, update),
                       op_table());
}

Partitioned partitioned(const Program& program, const Mesh& mesh, const std::string& spec) {
  Program annotated = annotate(program, mesh, "x", spec);
  annotated.num_partitions = mesh.device_count();
  annotated.meshes = {mesh};
  annotated = annotate(annotated, mesh, "y", spec);
  const CheckReport report = check_partition(annotated);
  EXPECT_TRUE(report.passed) << spec << ": " << (report.failures.empty() ? "" : report.failures.front());
  return partition(annotated);
}

TEST(ShardedUpdates, AnUnshardedUpdateIsWrittenWithoutCommunication) {
  const Mesh mesh = Mesh::parse("a=2,b=3");
  // Even and uneven shards; updates smaller than a shard, as large, and larger than several shards.
  for (const std::int64_t rows : {12, 13, 17})
    for (const std::int64_t size : {2, 4, 6, 11})
      for (const std::string spec : {"a,-", "b,-", "a+b,-"}) {
        const Program program = update_of(fmt::format("f32[{},5]", rows), fmt::format("f32[{},5]", size));
        EXPECT_TRUE(partitioned(program, mesh, spec).notes.empty()) << rows << " " << size << " " << spec;
      }
}

TEST(ShardedUpdates, TwoDimsMayBeSharded) {
  const Mesh mesh = Mesh::parse("a=2,b=3");
  for (const std::string update : {"f32[3,4]", "f32[1,4]", "f32[7,2]", "f32[7,10]", "f32[3,1]"})
    EXPECT_TRUE(partitioned(update_of("f32[7,10]", update), mesh, "a,b").notes.empty()) << update;
}

TEST(ShardedUpdates, AnUpdateIsGatheredRatherThanTheOperand) {
  const Mesh mesh = Mesh::parse("a=2,b=3");
  Program program = update_of("f32[60,8]", "f32[6,8]");
  program.num_partitions = 6;
  program.meshes = {mesh};
  program = annotate(annotate(annotate(program, mesh, "x", "a+b,-"), mesh, "u", "a+b,-"), mesh, "y", "a+b,-");
  EXPECT_TRUE(check_partition(program).passed);
  const Partitioned parts = partition(program);
  std::int64_t bytes = 0;
  for (const CollectiveNote& note : parts.notes) bytes += note.bytes;
  EXPECT_EQ(bytes, 5 * 8 * 4) << "five of six rows of the update";
}

}  // namespace
}  // namespace tessera

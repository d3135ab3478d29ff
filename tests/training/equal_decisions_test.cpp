// SPDX-License-Identifier: Apache-2.0
// Training, the plan of a step and `tessera partition` take the same sharding decisions, at every size of a program.
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "training/gpt2_training.h"

namespace tessera::testing {
namespace {

class EqualDecisions : public ::testing::TestWithParam<TrainingCase> {};

// The options with which the command partitions, without its trials of remedies.
PartitionOptions of_command() {
  PartitionOptions out;
  out.collectives.save_memory = true;
  return out;
}

TEST_P(EqualDecisions, ThePlanOfAStepHasTheProgramOfPartition) {
  const StepPlan plan = plan_of(GetParam());
  const Program text = parse_program(print_program(plan.global), op_table());
  EXPECT_EQ(plan.partitioned.program.hash(), partition(plan.global).program.hash());
  EXPECT_EQ(plan.partitioned.global.hash(), partition(text).global.hash());
  EXPECT_EQ(plan.partitioned.global.hash(), partition(text, of_command()).global.hash());
}

INSTANTIATE_TEST_SUITE_P(Meshes, EqualDecisions,
                         ::testing::Values(TrainingCase{.mesh = "fsdp=2,model=3", .layers = 1},
                                           TrainingCase{.mesh = "data=2,model=2", .layers = 2},
                                           TrainingCase{.mesh = "fsdp=4", .layers = 6}));

}  // namespace
}  // namespace tessera::testing

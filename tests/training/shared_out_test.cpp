// SPDX-License-Identifier: Apache-2.0
// Work and traffic of an executed GPT-2 step on even meshes: work is sharded and never replicated, and the bytes are
// those predicted.
#include <gtest/gtest.h>

#include "training/gpt2_training.h"

namespace tessera::testing {
namespace {

struct MeshCase {
  const char* mesh;
  double tolerance;  // how much flops x N / flops of one rank may exceed 1
};
std::string name_of(const ::testing::TestParamInfo<MeshCase>& info) {
  std::string out;
  for (const char c : std::string_view(info.param.mesh))
    out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? std::string(1, c) : "";
  return out;
}

double flops_alone() {
  static const double flops = measure_step({.mesh = "data=1"}).front().flops;
  return flops;
}

class EvenMesh : public ::testing::TestWithParam<MeshCase> {};

TEST_P(EvenMesh, EveryRankExecutesItsPartOfTheFlopsAndReceivesThePredictedBytes) {
  const auto ranks = measure_step({.mesh = GetParam().mesh});
  const auto count = static_cast<double>(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    SCOPED_TRACE(fmt::format("rank {}", r));
    const double share = ranks[r].flops * count / flops_alone();
    if (r == 0) fmt::print("{:<16} flops x N / flops of one rank: {:.4f}\n", GetParam().mesh, share);
    EXPECT_LE(share, 1 + GetParam().tolerance);
    EXPECT_GE(share, 0.95);
    const ProgramStats predicted = execution_stats(ranks[r].program.program);
    EXPECT_EQ(ranks[r].flops, predicted.flops_per_device);
    std::int64_t total = 0;
    for (const auto& kind : ranks[r].collectives) total += kind.bytes;
    EXPECT_EQ(total, predicted.total_collective_bytes);
    EXPECT_GT(total, 0);
    ASSERT_EQ(ranks[r].collectives.size(), predicted.collectives.size());
    for (std::size_t k = 0; k < predicted.collectives.size(); ++k) {
      EXPECT_EQ(ranks[r].collectives[k].opcode, predicted.collectives[k].opcode);
      EXPECT_EQ(ranks[r].collectives[k].bytes, predicted.collectives[k].bytes) << predicted.collectives[k].opcode;
    }
    EXPECT_EQ(ranks[r].through_mpi, 0);
    EXPECT_EQ(ranks[r].loss, ranks[0].loss);
  }
}

constexpr double kEven = 0.05;
INSTANTIATE_TEST_SUITE_P(Meshes, EvenMesh,
                         ::testing::Values(MeshCase{"data=2", kEven}, MeshCase{"data=4", kEven},
                                           MeshCase{"data=6", kEven}, MeshCase{"fsdp=4", kEven},
                                           MeshCase{"model=2", kEven}, MeshCase{"model=4", kEven},
                                           MeshCase{"data=2,model=2", kEven}, MeshCase{"fsdp=2,model=2", kEven},
                                           MeshCase{"data=2,model=3", kEven}, MeshCase{"data=3,model=2", kEven}),
                         name_of);

// The work of norms, dropouts and residual sums is proportional to the width, and that of products to its square. If
// the former were replicated along the axis, the figures of a narrow model would show it.
TEST(NarrowModel, ShardsNormsAndResidualSums) {
  TrainingCase options{
      .mesh = "data=1", .width = 32, .heads = 4, .layers = 3, .vocabulary = 256, .time = 64, .rows = 4};
  const double alone = execution_stats(plan_of(options).partitioned.program).flops_per_device;
  for (const char* mesh : {"model=2", "model=4", "data=2,model=4"}) {
    options.mesh = mesh;
    const StepPlan plan = plan_of(options);
    const auto devices = static_cast<double>(plan.partitioned.program.num_partitions);
    const double share = execution_stats(plan.partitioned.program).flops_per_device * devices / alone;
    fmt::print("{:<16} {:+.2f}%\n", mesh, 100 * (share - 1));
    EXPECT_LE(share, 1.02) << mesh;
  }
}

}  // namespace
}  // namespace tessera::testing

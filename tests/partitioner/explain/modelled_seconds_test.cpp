// SPDX-License-Identifier: Apache-2.0
// The modelled time of a per-device program.
#include <gtest/gtest.h>

#include "tessera/ir/builder.h"
#include "tessera/ir/text.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

MachineModel cpu_node() { return MachineModel::load("cpu-node"); }

double seconds_of(const std::string& instructions) {
  return modelled_seconds(parse_program("HloModule m\nENTRY main {\n" + instructions + "}\n", op_table()), cpu_node());
}

TEST(ModelledSeconds, OnlyResultsThatLeaveAFusedGroupAreWritten) {
  const MachineModel machine = cpu_node();
  const double work = 1000 / machine.flops_per_second(DType::kF32, WorkClass::kOther);
  const double write = 4000 / machine.memory_bytes_per_second();
  const std::string parameter = "x = f32[1000] parameter(0)\n";
  EXPECT_DOUBLE_EQ(seconds_of(parameter + "ROOT y = f32[1000] multiply(x, x)\n"), work + write);
  EXPECT_DOUBLE_EQ(seconds_of(parameter + "y = f32[1000] multiply(x, x)\nROOT z = f32[1000] add(y, x)\n"),
                   2 * work + write);
  // The reverse reads y from memory and writes its result.
  EXPECT_DOUBLE_EQ(seconds_of(parameter + "y = f32[1000] multiply(x, x)\n"
                                          "ROOT z = f32[1000] reverse(y), dimensions={0}\n"),
                   work + 3 * write);
}

TEST(ModelledSeconds, AttentionHasTheSpeedOfProducts) {
  ProgramBuilder program("m");
  Builder main = program.computation("main");
  std::vector<Value> inputs;
  for (std::int64_t i = 0; i < 3; ++i)
    inputs.push_back(ops::parameter(main, i, Type::array(DType::kF32, {1, 64, 4, 32})));
  const Value out = ops::attention(inputs[0], inputs[1], inputs[2], {});
  const ComputationId entry = program.add(std::move(main), out);
  const MachineModel machine = cpu_node();
  const double operations = 2.0 * 4 * 64 * 64 * (32 + 32);
  const double bytes = 4.0 * (4 * 64 * 4 * 32 + 64 * 4);  // q, k, v, the output, the log-sum-exp
  EXPECT_DOUBLE_EQ(modelled_seconds(program.finish(entry), machine),
                   operations / machine.flops_per_second(DType::kF32, WorkClass::kWideProduct) +
                       bytes / machine.memory_bytes_per_second());
}

}  // namespace
}  // namespace tessera

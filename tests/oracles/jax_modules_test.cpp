// SPDX-License-Identifier: Apache-2.0
// Modules as JAX lowers them (tests/data/jax): read, printed, read again, partitioned over their 2x2 devices and
// checked.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tessera/base/files.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kDevices = 4;

std::vector<std::string> modules() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_JAX_MODULES))
    if (entry.path().extension() == ".hlo") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string name_of(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

Program read(const std::string& path) {
  return parse_program(read_file(path), op_table(), {.num_partitions = kDevices});
}

std::int64_t sharded_parameters(const Program& program) {
  const auto& entry = program.entry_computation();
  return std::count_if(entry.parameters.begin(), entry.parameters.end(), [&](Id id) {
    const auto& sharding = entry[id].sharding;
    return sharding && !sharding->front().is_replicated();
  });
}

class JaxModule : public ::testing::TestWithParam<std::string> {};

TEST_P(JaxModule, ReadsBackAsPrinted) {
  const Program program = read(GetParam());
  const Program again = parse_program(print_program(program), op_table());
  EXPECT_EQ(difference(program, again), "");
}

TEST_P(JaxModule, KeepsTheShardingsOfItsParameters) { EXPECT_GE(sharded_parameters(read(GetParam())), 1); }

TEST_P(JaxModule, InGspmdFormHasNoShardyCallsAndIsTheSameProgram) {
  const Program program = read(GetParam());
  const std::string text = print_program(in_gspmd_form(program), {.for_xla = true});
  EXPECT_EQ(text.find("custom_call_target=\"xla.sdy."), std::string::npos);
  const Program again = parse_program(text, op_table());
  EXPECT_EQ(again.entry_computation().parameter_types(), program.entry_computation().parameter_types());
  if (name_of(GetParam()) == "manual_partial_shardy") {
    const CheckReport report = check_partition(again);
    EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  }
}

TEST_P(JaxModule, PartitionedEqualsUnpartitioned) {
  const CheckReport report = check_partition(read(GetParam()));
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  EXPECT_GT(report.values_compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, JaxModule, ::testing::ValuesIn(modules()),
                         [](const auto& info) { return name_of(info.param); });

// JAX prints a parameter at its first use, so parameters are not in the order of their numbers.
TEST(JaxModules, IncludeOneWithParametersOutOfOrder) {
  EXPECT_GE(modules().size(), 28U);
  const auto paths = modules();
  const bool out_of_order = std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
    const Program program = read(path);
    const auto& list = program.entry_computation().parameters;
    return !std::is_sorted(list.begin(), list.end());
  });
  EXPECT_TRUE(out_of_order);
}

TEST(JaxModules, WithoutAnyShardingAreFullyReplicated) {
  constexpr std::string_view kText =
      "HloModule plain\nENTRY main {\n  x = f32[5,3]{1,0} parameter(0)\n  ROOT y = f32[5,3]{1,0} tanh(x)\n}\n";
  const CheckReport report = check_partition(parse_program(kText, op_table(), {.num_partitions = kDevices}));
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
}

}  // namespace
}  // namespace tessera

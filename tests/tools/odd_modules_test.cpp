// SPDX-License-Identifier: Apache-2.0
// Modules with unusual shapes, types and shardings (data/odd): each is read, printed, partitioned and counted, and both
// engines compute the same values as the unpartitioned program.
#include <algorithm>

#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

std::vector<std::string> odd_modules() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(TESSERA_DATA) / "odd"))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class OddModules : public TesseraCommand, public ::testing::WithParamInterface<std::string> {
 protected:
  void expect_good(const std::string& arguments) {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << "tessera " << arguments << "\n" << outcome.out << outcome.error;
    if (outcome.error.starts_with("note: nothing is sharded: ")) return;
    EXPECT_EQ(outcome.error, "") << arguments;
  }
};

TEST_P(OddModules, ReadPrintPartitionCountAndCheck) {
  const std::string module = fmt::format("odd/{}.hlo", GetParam());
  expect_good("print " + module + " -o " + path("printed"));
  EXPECT_EQ(run("print " + path("printed")).out, content(path("printed")));
  expect_good("partition " + module + " -o " + path("parts"));
  EXPECT_EQ(run("print " + path("parts")).out, content(path("parts")));
  expect_good("stats " + path("parts"));
  expect_good("check " + module);
  expect_good("check --engine lowered " + module);
  expect_good("check --engine runtime " + module);
}

INSTANTIATE_TEST_SUITE_P(All, OddModules, ::testing::ValuesIn(odd_modules()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera::command_tests

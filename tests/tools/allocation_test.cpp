// SPDX-License-Identifier: Apache-2.0
// The hosts and numbers of ranks in the variables of Slurm and PBS.
#include "launch/allocation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace tessera::command {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

std::string hosts_text(const std::string& list) { return fmt::format("{}", fmt::join(hosts_of_node_list(list), " ")); }

TEST(NodeList, RangesKeepTheirZerosAndTheOrder) {
  EXPECT_EQ(hosts_text("node1"), "node1");
  EXPECT_EQ(hosts_text("node[01-04,7],gpu3"), "node01 node02 node03 node04 node7 gpu3");
  EXPECT_EQ(hosts_text("b,a[9-11],c-d.org"), "b a9 a10 a11 c-d.org");
  EXPECT_EQ(hosts_text("n[098-101]-ib"), "n098-ib n099-ib n100-ib n101-ib");
  EXPECT_EQ(hosts_text("rack[1-2]n[01,3]"), "rack1n01 rack1n3 rack2n01 rack2n3");
  EXPECT_EQ(hosts_of_node_list("n[0-65535]").size(), 65536U);
}

TEST(NodeList, WrongTextsAreErrors) {
  const auto error = [](const std::string& list) { return error_of([&] { (void)hosts_of_node_list(list); }); };
  for (const char* list : {"n[1-2", "n1]", "n[1-[2]]", "n[[1]"})
    EXPECT_EQ(error(list), fmt::format("\"{}\" has an unmatched bracket", list));
  for (const char* list : {"", "a,", ",a", "a,,b"})
    EXPECT_EQ(error(list), fmt::format("\"{}\" has an entry without a host", list));
  for (const char* range : {"x", "1-x", "-1", "1-", "3-2", "1234567890", "1--2"})
    EXPECT_EQ(error(fmt::format("n[7,{}]", range)),
              fmt::format("\"[7,{}]\" must contain numbers and ranges such as 01-04, got \"{}\"", range, range));
  EXPECT_EQ(error("n[]"), "\"[]\" must contain numbers and ranges such as 01-04");
  EXPECT_EQ(error("n[0-65536]"), "\"[0-65536]\" has more than 65536 numbers");
  EXPECT_EQ(error("n[0-999]m[0-999]"), "\"n[0-999]m[0-999]\" has more than 65536 hosts");
  EXPECT_EQ(error("n[1-65536],m"), "\"n[1-65536],m\" has more than 65536 hosts");
}

TEST(NodeList, CountsMayBeRepeated) {
  EXPECT_EQ(counts_of_nodes("4(x2),3,16(x3)"), (std::vector<std::int64_t>{4, 4, 3, 16, 16, 16}));
  EXPECT_TRUE(counts_of_nodes("").empty());
  for (const char* entry : {"x", "4(x2", "4(x)", "4(2)", "(x2)", "-4", "4(x-1)"})
    EXPECT_EQ(error_of([&] { (void)counts_of_nodes(fmt::format("1,{}", entry)); }),
              fmt::format("\"1,{}\" must contain numbers such as 4 or 4(x2), got \"{}\"", entry, entry));
  EXPECT_EQ(error_of([] { (void)counts_of_nodes("1,2(x65536)"); }), "\"1,2(x65536)\" has more than 65536 numbers");
}

class AllocationOfJob : public ::testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "PBS_NODEFILE"})
      ::unsetenv(name);
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  // `8: HOSTS, --host a:4`: the number of ranks, the text, and the options of mpirun.
  static std::string text() {
    const auto found = allocation_of_job();
    return found ? fmt::format("{}: {}, {}", found->ranks(), found->str(), fmt::join(found->options(), " ")) : "none";
  }
};

TEST_F(AllocationOfJob, IsThatOfTheVariablesOfSlurm) {
  EXPECT_EQ(text(), "none");
  set("SLURM_JOB_NODELIST", "node[1-2]");
  EXPECT_EQ(text(), "0: 2 hosts of the Slurm job: node1, node2, --host node1:*,node2:*");
  set("SLURM_NTASKS_PER_NODE", "4");
  EXPECT_EQ(text(), "8: 2 hosts of the Slurm job: node1 (4), node2 (4), --host node1:4,node2:4");
  set("SLURM_TASKS_PER_NODE", "4,3");  // the last host has fewer ranks
  EXPECT_EQ(text(), "7: 2 hosts of the Slurm job: node1 (4), node2 (3), --host node1:4,node2:3");
  set("SLURM_TASKS_PER_NODE", "1");  // of an interactive step
  EXPECT_EQ(text(), "8: 2 hosts of the Slurm job: node1 (4), node2 (4), --host node1:4,node2:4");
  set("SLURM_JOB_NODELIST", "n[1-12]");
  EXPECT_EQ(allocation_of_job()->str(),
            "12 hosts of the Slurm job: n1 (4), n2 (4), n3 (4), n4 (4), n5 (4), n6 (4), n7 (4), n8 (4), …");
  set("SLURM_JOB_NODELIST", "n[1");
  EXPECT_EQ(error_of(text), "the variables of Slurm: \"n[1\" has an unmatched bracket");
}

TEST_F(AllocationOfJob, HasARankForEachLineOfTheFileOfPbs) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("nodes")) << "b.org\nb.org\na.org\nb.org\n";
  set("PBS_NODEFILE", folder.file("nodes"));
  EXPECT_EQ(text(), "4: 2 hosts of the PBS job: b.org (3), a.org (1), --host b.org:3,a.org:1");
  std::ofstream(folder.file("nodes")) << "a.org\n";
  EXPECT_EQ(text(), "1: 1 host of the PBS job: a.org (1), --host a.org:1");
  std::ofstream(folder.file("nodes")) << "\n";
  EXPECT_EQ(error_of(text), "PBS_NODEFILE: " + folder.file("nodes") + " names no host");
  set("PBS_NODEFILE", folder.file("absent"));
  EXPECT_EQ(error_of(text).substr(0, 14), "PBS_NODEFILE: ");
}

}  // namespace
}  // namespace tessera::command

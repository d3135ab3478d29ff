// SPDX-License-Identifier: Apache-2.0
// The hosts in the options of mpirun, and the start without some of them.
#include "launch/hosts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/error_of.h"
#include "tessera/base/cpus.h"

namespace tessera::command {
namespace {

using ::tessera::testing::error_of;
using Words = std::vector<std::string>;

// `a:2 joe@b:0`, with the addresses.
std::string text_of(const std::vector<Host>& hosts) {
  std::string out;
  for (const Host& host : hosts) out += fmt::format("{}{}:{}", out.empty() ? "" : " ", host.address, host.slots);
  return out;
}

class Hostfile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("hosts_{}_{}", info->name(), ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& text) const {
    std::ofstream(folder_ / "hosts") << text;
    return (folder_ / "hosts").string();
  }
  [[nodiscard]] std::string folder() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

std::string content_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST(Hosts, ListsHaveOneSlotForEachMentionOrTheGivenNumber) {
  EXPECT_EQ(text_of(hosts_in({"--bind-to", "core", "--host", "a:2,10.0.0.7,joe@b:16"})), "a:2 10.0.0.7:1 joe@b:16");
  EXPECT_EQ(text_of(hosts_in({"-host", "a,b,a", "-H", "a:3,c:*"})), "a:5 b:1 c:0");
}

TEST(Hosts, NoneAreNamedByOtherOptionsOrByNumbers) {
  for (const Words& options : {Words{}, Words{"--host"}, Words{"--map-by", "core"}, Words{"--host", "a,+n1"},
                               Words{"--hostfile", "/no/such/file"}, Words{"--hostfile", "/"}})
    EXPECT_TRUE(hosts_in(options).empty()) << options.size();
}

TEST_F(Hostfile, LinesGiveNamesSlotsAndUsers) {
  const std::string path = file(
      "# slots=9\n\n// a comment\na slots=4 max_slots=5  # the first\n\tb.c-d.org\tslots = 2\ne count=3\n^x\n"
      "f username=joe slots=7\ng\nh\nh\ni slots=\nj slots=1 # no line end: slots=8");
  for (const char* option : {"--hostfile", "-hostfile", "--machinefile", "-machinefile"})
    EXPECT_EQ(text_of(hosts_in({option, path})), "a:4 b.c-d.org:2 e:3 joe@f:7 g:0 h:2 i:0 j:1");
  EXPECT_EQ(text_of(hosts_in({"--hostfile", path, "--host", "e:2,a"})), "e:2 a:1");  // as mpirun does
}

TEST_F(Hostfile, ACopyLeavesOutTheLinesOfHosts) {
  const std::string text = "# all\nnode1 slots=4 max_slots=5\nnode2 slots=4\nnode22 slots=4\n ^node2\n";
  const std::string path = file(text);
  const Words options = options_without({"--bind-to", "core", "--hostfile", path, "-q"}, {"node2", "node3"}, folder());
  ASSERT_EQ(options.size(), 5U);
  EXPECT_EQ(content_of(options[3]), "# all\nnode1 slots=4 max_slots=5\nnode22 slots=4\n ^node2\n");
  EXPECT_EQ(content_of(path), text);
  EXPECT_EQ(options, (Words{"--bind-to", "core", "--hostfile", options[3], "-q"}));
  EXPECT_EQ(text_of(hosts_in(options)), "node1:4 node22:4");
}

TEST_F(Hostfile, AFileThatCannotBeCopiedIsAnError) {
  const std::string path = file("a\nb\n");
  EXPECT_EQ(error_of([&] {
              (void)options_without({"--hostfile", path}, {"a"}, folder() + "/absent");
            }),
            "cannot write " + folder() + "/absent/hostfile.0");
  EXPECT_EQ(error_of([&] {
              (void)options_without({"--hostfile", path + ".absent"}, {"a"}, folder());
            }),
            "cannot read " + path + ".absent");
}

TEST(Hosts, ListsLeaveOutHosts) {
  EXPECT_EQ(options_without({"--host", "a:2,b:2,ab,b", "--map-by", "b"}, {"b"}, "/tmp"),
            (Words{"--host", "a:2,ab", "--map-by", "b"}));
  EXPECT_EQ(options_without({"-H", "b", "-H", "a", "-np"}, {"b"}, "/tmp"), (Words{"-H", "a", "-np"}));
}

TEST(Hosts, MoreRanksThanCoresNeedAnOptionIfNothingElseIsSaid) {
  EXPECT_TRUE(needs_oversubscribe({}, 3, 2));
  EXPECT_TRUE(needs_oversubscribe({"--bind-to", "core"}, 3, 2));
  EXPECT_FALSE(needs_oversubscribe({}, 2, 2));
  for (const Words& options : {Words{"--host", "a:2"}, Words{"--hostfile", "hosts"}, Words{"--oversubscribe"},
                               Words{"--nooversubscribe"}, Words{"--map-by", "core:OVERSUBSCRIBE"},
                               Words{"--mca", "rmaps_base_oversubscribe", "0"}, Words{"--use-hwthread-cpus"}})
    EXPECT_FALSE(needs_oversubscribe(options, 3, 2)) << options.back();
  EXPECT_GE(usable_core_count(), 1);
  EXPECT_LE(usable_core_count(), usable_cpu_count());
}

struct RanksCase {
  std::string hosts;  // the value of --host
  std::int64_t wanted, least, ranks;
  std::string problem;
};

TEST(Hosts, RanksAreAsManyAsWantedOrAsSlotsIfFewerAreAllowed) {
  const std::vector<RanksCase> cases = {
      {"a:4,b:4", 8, 0, 8, ""},
      {"a:4,b:5", 8, 0, 8, ""},
      {"a:4,b:3", 8, 7, 7, ""},
      {"a:4,b:3", 8, 1, 7, ""},
      {"a:4,b:3", 7, 8, 7, ""},  // --np-on-restart may be less than --min-ranks
      {"a:4,b:3", 8, 8, 0, "the other hosts have 7 slots, fewer than --min-ranks 8"},
      {"a:4,b:3", 8, 0, 0, "the other hosts have 7 slots for 8 ranks; --min-ranks 7 allows fewer ranks"},
      {"a:4,b:*", 4, 0, 4, ""},
      {"a:4,b:*", 5, 1, 0, "the slots of host b are not given; write slots=N into the hostfile, or --host b:N"},
      {"", 8, 1, 0, "the job has no other host"},
  };
  for (const RanksCase& one : cases) {
    const RankCount count = ranks_on(hosts_in({"--host", one.hosts}), one.wanted, one.least);
    EXPECT_EQ(count.ranks, one.ranks) << one.hosts;
    EXPECT_EQ(count.problem, one.problem) << one.hosts;
  }
}

class LaunchAgent : public ::testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    for (const char* name : {"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_plm_rsh_args", "OMPI_MCA_orte_rsh_agent"})
      ::unsetenv(name);
  }
};

TEST_F(LaunchAgent, IsThatOfMpirun) {
  EXPECT_EQ(launch_agent({}), (Words{"ssh", "-o", "BatchMode=yes"}));
  EXPECT_EQ(launch_agent({"--mca", "plm_rsh_agent", "/opt/enter"}), (Words{"/opt/enter"}));
  EXPECT_EQ(launch_agent({"-mca", "plm_rsh_args", "-4"}), (Words{"ssh", "-o", "BatchMode=yes", "-4"}));
  EXPECT_EQ(launch_agent({"--mca", "plm_rsh_agent", " : "}), (Words{"ssh", "-o", "BatchMode=yes"}));
  ::setenv("OMPI_MCA_plm_rsh_agent", "/usr/bin/ssh -v : rsh", 1);
  ::setenv("OMPI_MCA_plm_rsh_args", "-p 22", 1);
  EXPECT_EQ(launch_agent({}), (Words{"/usr/bin/ssh", "-v", "-o", "BatchMode=yes", "-p", "22"}));
  EXPECT_EQ(launch_agent({"--mca", "plm_rsh_agent", "rsh"}), (Words{"rsh", "-p", "22"}));  // options before variables
  ::unsetenv("OMPI_MCA_plm_rsh_agent");
  ::setenv("OMPI_MCA_orte_rsh_agent", "rsh", 1);  // the older name
  EXPECT_EQ(launch_agent({}).front(), "rsh");
}

}  // namespace
}  // namespace tessera::command

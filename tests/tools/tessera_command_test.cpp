// SPDX-License-Identifier: Apache-2.0
// The command as a user meets it: outputs, messages and exit codes of the program itself. TESSERA_UPDATE_GOLDEN=1 rewrites the
// golden files.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

struct Outcome {
  int code = -1;
  std::string out;
  std::string error;
};

class TesseraCommand : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("tessera_command_{}_{}", info->name(), ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // mpirun as root and on one core, also without ctest.
  static void allow_mpirun() {
    for (const char* name :
         {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
      ::setenv(name, "1", 0);
  }

  // Runs in the folder of the test data, so that messages name files without folders.
  [[nodiscard]] Outcome run(const std::string& arguments, const std::string& before = "") const {
    const auto line = fmt::format("cd '{}' && {} '{}' {} >'{}' 2>'{}'", TESSERA_DATA, before, TESSERA_COMMAND,
                                  arguments, path("out"), path("error"));
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(path("out")), content(path("error"))};
  }

  static void expect_golden(const std::string& name, const std::string& text) {
    const fs::path golden = fs::path(TESSERA_DATA) / name;
    if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << text;
    EXPECT_EQ(text, content(golden)) << "set TESSERA_UPDATE_GOLDEN=1 to accept";
  }

 private:
  fs::path folder_;
};

constexpr const char* kMegatron =
    "mlp.hlo --mesh data=2,model=3 --annotate x=data,- --annotate w=-,model --annotate v=model,- ";

TEST_F(TesseraCommand, HelpIsGoodAndNoVerbIsUsage) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_NE(run("--help").out.find("Exit codes: 0 good, 1 the input is wrong, 2 usage, 3 a check failed."),
            std::string::npos);
  EXPECT_EQ(run("").code, 2);
  for (const std::string verb : {"partition", "stats", "check", "run", "print"}) {
    const auto help = run(verb + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(help.out.starts_with("tessera " + verb + ": ")) << help.out;
  }
}

TEST_F(TesseraCommand, UnknownNamesGetTheNearestOne) {
  const auto verb = run("partitoin x");
  EXPECT_EQ(verb.code, 2);
  EXPECT_EQ(verb.error, "tessera: unknown verb \"partitoin\"; did you mean \"partition\"?\ntry `tessera --help`\n");
  const auto option = run("partition mlp.hlo --anotate x=data");
  EXPECT_EQ(option.code, 2);
  EXPECT_EQ(
      option.error,
      "tessera partition: unknown option --anotate; did you mean \"--annotate\"?\ntry `tessera partition --help`\n");
  const auto value = run("partition mlp.hlo --mesh data=2 --annotate xx=data,-");
  EXPECT_EQ(value.code, 1);
  EXPECT_EQ(value.error, "tessera partition: no value of main is named \"xx\"; did you mean \"x\"?\n");
}

TEST_F(TesseraCommand, UsageErrorsExitWith2) {
  EXPECT_EQ(
      run("print").error,
      "tessera print: an input is missing: a file of HLO text, or - for standard input\ntry `tessera print --help`\n");
  EXPECT_EQ(run("print a.hlo b.hlo").code, 2);
  EXPECT_EQ(run("partition mlp.hlo --mesh").error,
            "tessera partition: --mesh needs AXIS=SIZE,..\ntry `tessera partition --help`\n");
  EXPECT_EQ(run("partition mlp.hlo --num-partitions many").error,
            "tessera partition: --num-partitions takes a number of at least 1, got \"many\"\ntry `tessera partition "
            "--help`\n");
  EXPECT_EQ(run("partition mlp.hlo --explain=yes").code, 2);
  EXPECT_EQ(run("check mlp.hlo --engine fast").code, 2);
}

TEST_F(TesseraCommand, WrongInputsExitWith1AndOneMessage) {
  EXPECT_EQ(run("print nothing.hlo").error, "tessera print: cannot read nothing.hlo: No such file or directory\n");
  const auto wrong = run("print " + file("bad.hlo", "HloModule m\nENTRY e { x = f32[2] parametr(0) }\n"));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(wrong.error, fmt::format("tessera print: {}:2:22: unknown op \"parametr\"; did you mean \"parameter\"?\n"
                                     "  ENTRY e {{ x = f32[2] parametr(0) }}\n                       ^\n",
                                     path("bad.hlo")));
  EXPECT_EQ(run("partition mlp.hlo --annotate x=data,-").error,
            "tessera partition: --annotate needs a mesh: give --mesh data=2,model=2\n");
  EXPECT_EQ(run("partition mlp.hlo --mesh data=2,model=2 --num-partitions 8").code, 1);
}

TEST_F(TesseraCommand, PrintReadsItsOwnOutputFromStandardInput) {
  const auto once = run("print mlp.hlo");
  EXPECT_EQ(once.code, 0);
  expect_golden("mlp.print.hlo", once.out);
  EXPECT_EQ(run("print - <'" + file("again.hlo", once.out) + "'").out, once.out);
}

TEST_F(TesseraCommand, PartitionPrintsOneAllReduceForAMegatronMlp) {
  const auto out = run(std::string("partition --for-xla ") + kMegatron + "-o " + path("p.hlo") + " --explain --json " +
                       path("s.json"));
  EXPECT_EQ(out.code, 0) << out.error;
  expect_golden("mlp.partitioned.hlo", content(path("p.hlo")));
  expect_golden("mlp.explained.txt", out.out);
  EXPECT_NE(content(path("s.json")).find("\"milliseconds\": "), std::string::npos);
  EXPECT_EQ(out.error, "");
}

TEST_F(TesseraCommand, PartitioningTwiceIsAnErrorAndAClashOfCountsToo) {
  EXPECT_EQ(run(std::string("partition ") + kMegatron + "-o " + path("p.hlo")).code, 0);
  const auto twice = run("partition " + path("p.hlo"));
  EXPECT_EQ(twice.code, 1);
  EXPECT_NE(twice.error.find("already partitioned"), std::string::npos) << twice.error;
  const auto clash = run("partition " + path("p.hlo") + " --num-partitions 4");
  EXPECT_EQ(clash.code, 1);
  EXPECT_NE(clash.error.find(": the module is for 6 partitions, 4 were asked for\n"), std::string::npos) << clash.error;
}

TEST_F(TesseraCommand, StatsCountsWhatOneDeviceReceives) {
  ASSERT_EQ(run(std::string("partition ") + kMegatron + "-o " + path("p.hlo")).code, 0);
  const auto table = run("stats " + path("p.hlo"));
  EXPECT_EQ(table.code, 0) << table.error;
  expect_golden("mlp.stats.txt", table.out);
  const auto json = run("stats --json - " + path("p.hlo"));
  EXPECT_NE(json.out.find("\"num_partitions\": 6"), std::string::npos) << json.out;
  EXPECT_EQ(json.out.find("milliseconds"), std::string::npos);
}

TEST_F(TesseraCommand, CheckPassesOnBothEngines) {
  for (const std::string engine : {"reference", "runtime"}) {
    const auto out = run(std::string("check ") + kMegatron + "--engine " + engine + " --json " + path("c.json"));
    EXPECT_EQ(out.code, 0) << engine << out.out << out.error;
    EXPECT_TRUE(out.out.starts_with("passed: ")) << out.out;
    EXPECT_NE(content(path("c.json")).find("\"passed\": true"), std::string::npos);
  }
}

TEST_F(TesseraCommand, RunGivesTheSameResultsOnOneRankAndOnTwo) {
  allow_mpirun();
  const auto one = run("run sum.hlo --outputs " + path("out.safetensors"));
  EXPECT_EQ(one.code, 0) << one.error;
  EXPECT_TRUE(one.out.starts_with("result.0: s32[7,5] sum ")) << one.out;
  const auto two = run("run sum.hlo --mesh data=2 --annotate x=data,-", fmt::format("{} -n 2", TESSERA_MPIEXEC));
  EXPECT_EQ(two.code, 0) << two.error;
  EXPECT_EQ(two.out, one.out);
  const auto wrong = run("run sum.hlo --inputs " + path("out.safetensors"));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.error.find("has no tensor \"x\""), std::string::npos) << wrong.error;
}

}  // namespace

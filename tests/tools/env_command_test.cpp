// SPDX-License-Identifier: Apache-2.0
// `tessera env` and `tessera report`.
#include <algorithm>

#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

class EnvCommand : public TesseraCommand {
 protected:
  // The text of the lines that begin with this name.
  static std::vector<std::string> lines_of(const std::string& out, const std::string& name) {
    std::vector<std::string> found;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(fmt::format("{:<10}", name))) found.push_back(line.substr(10));
    return found;
  }
};

using Lines = std::vector<std::string>;

TEST_F(EnvCommand, PrintsTheBuildTheMachineAndTheVariables) {
  const auto env = run("env", "TESSERA_ISA=generic TESSERA_NUM_THREADS=2 TESSERA_MEMORY_LIMIT=3GB");
  EXPECT_EQ(env.code, 0) << env.error;
  EXPECT_TRUE(env.out.starts_with("tessera   " TESSERA_VERSION "\ncompiler  ")) << env.out;
  EXPECT_EQ(lines_of(env.out, "backend"), Lines{"CPU, device xla:0"});
  EXPECT_TRUE(lines_of(env.out, "kernels").at(0).starts_with("generic (the processor supports ")) << env.out;
  EXPECT_TRUE(lines_of(env.out, "ranks").at(0).starts_with("1 process on 1 node: ")) << env.out;
  EXPECT_TRUE(lines_of(env.out, "threads").at(0).starts_with("2 for each rank; it may use ")) << env.out;
  EXPECT_EQ(lines_of(env.out, "limit"), Lines{"3GB for each rank (TESSERA_MEMORY_LIMIT)"});
  EXPECT_NE(env.out.find("\nmemory    the machine: "), std::string::npos) << env.out;
  const Lines variables = lines_of(env.out, "variable");
  for (const char* set : {"TESSERA_ISA=generic", "TESSERA_NUM_THREADS=2", "TESSERA_MEMORY_LIMIT=3GB"})
    EXPECT_EQ(std::count(variables.begin(), variables.end(), set), 1) << env.out;
}

TEST_F(EnvCommand, LeavesTheTraceOfAJobAsItIs) {
  const std::string trace = file("trace.json", "of the job");
  EXPECT_EQ(run("env", "TESSERA_TRACE_FILE=" + trace).code, 0);
  EXPECT_EQ(content(trace), "of the job");
}

TEST_F(EnvCommand, CountsTheRanksOfMpirunAndVirtualOnes) {
  allow_mpirun();
  const auto processes = run("env", fmt::format("{} -n 3", TESSERA_MPIEXEC));
  EXPECT_EQ(processes.code, 0) << processes.error;
  EXPECT_EQ(lines_of(processes.out, "ranks").size(), 1U) << processes.out;
  EXPECT_TRUE(lines_of(processes.out, "ranks").at(0).starts_with("3 processes on 1 node: ")) << processes.out;
  EXPECT_EQ(lines_of(processes.out, "exchange").size(), 1U);
  const auto threads = run("env", "CPU_NUM_DEVICES=4");
  EXPECT_EQ(threads.code, 0) << threads.error;
  EXPECT_EQ(lines_of(threads.out, "ranks"), Lines{"4 threads of one process"});
  EXPECT_EQ(lines_of(threads.out, "exchange"), Lines{"memory of the process"});
}

TEST_F(EnvCommand, MistakesAreErrors) {
  const auto input = run("env mlp.hlo");
  EXPECT_EQ(input.code, 2);
  EXPECT_EQ(input.error, "tessera env: no input is expected, got \"mlp.hlo\"\ntry `tessera env --help`\n");
  const auto backend = run("env", "PJRT_DEVICE=TPU");
  EXPECT_EQ(backend.code, 1);
  EXPECT_EQ(backend.error, "PJRT_DEVICE=TPU: unknown backend; known: CPU, REFERENCE\n");
  const auto empty = run("env", "PJRT_DEVICE=");
  EXPECT_EQ(empty.code, 0) << empty.error;
  EXPECT_TRUE(lines_of(empty.out, "backend").at(0).starts_with("CPU")) << empty.out;
  EXPECT_NE(run("env", "TESSERA_DUMPDIR=x").error.find("did you mean \"TESSERA_DUMP_DIR\"?"), std::string::npos);
  EXPECT_TRUE(run("env --help").out.starts_with("tessera env: prints what a job uses: ")) << run("env --help").out;
  EXPECT_NE(run("env --help").out.find("usage: tessera env [options]\n"), std::string::npos);
}

TEST_F(EnvCommand, AReportTellsHowToGetItsMissingParts) {
  const auto report = run("report", "env -u XLA_METRICS_FILE -u TESSERA_DUMP_DIR");
  EXPECT_EQ(report.code, 0) << report.error;
  EXPECT_TRUE(report.out.starts_with("== environment ==\ntessera   " TESSERA_VERSION)) << report.out;
  EXPECT_NE(report.out.find("== metrics of the last step ==\nnone: run the job with XLA_METRICS_FILE=FILE, "),
            std::string::npos)
      << report.out;
  EXPECT_NE(report.out.find("== programs ==\nnone: run the job with TESSERA_DUMP_DIR=FOLDER, "), std::string::npos)
      << report.out;
  EXPECT_EQ(report.out.find("== end of"), std::string::npos) << report.out;
}

TEST_F(EnvCommand, AReportHasTheLastMetricsTheProgramsAndTheEndOfTheOutput) {
  const auto metrics = file("metrics",
                            "[MetricsData; step=1]\nCounter: MarkStep\n  Value: 1\n\n"
                            "[MetricsData; step=2]\nCounter: MarkStep\n  Value: 2\n\n");
  const std::string dumps = path("dumps");
  EXPECT_EQ(run("run sum.hlo", "TESSERA_DUMP_DIR=" + dumps).code, 0);
  std::string output;
  for (int line = 1; line <= 205; ++line) output += fmt::format("line {}\n", line);
  const auto log = file("log", output);
  const auto report = run("report " + log, fmt::format("XLA_METRICS_FILE={} TESSERA_DUMP_DIR={}", metrics, dumps));
  EXPECT_EQ(report.code, 0) << report.error;
  EXPECT_NE(report.out.find("== metrics of the last step ==\n[MetricsData; step=2]\nCounter: MarkStep\n  Value: 2\n"),
            std::string::npos)
      << report.out;
  EXPECT_EQ(report.out.find("step=1]"), std::string::npos) << report.out;
  for (const auto& entry : fs::directory_iterator(dumps))
    EXPECT_NE(report.out.find("\n" + entry.path().filename().string() + " ("), std::string::npos) << report.out;
  EXPECT_NE(report.out.find(fmt::format("== end of {} ==\nline 6\n", log)), std::string::npos) << report.out;
  EXPECT_TRUE(report.out.ends_with("line 205\n")) << report.out;
}

TEST_F(EnvCommand, AReportOfAFileThatDoesNotExistIsAnError) {
  const auto report = run("report no/such.log");
  EXPECT_EQ(report.code, 1);
  EXPECT_NE(report.error.find("cannot read no/such.log: No such file or directory"), std::string::npos) << report.error;
  EXPECT_EQ(report.out, "");
}

}  // namespace
}  // namespace tessera::command_tests

// SPDX-License-Identifier: Apache-2.0
// The effects of environment variables: advice, analyses, metrics files, the cache of partitioned programs, log levels.
#include <gtest/gtest.h>

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/options.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::TemporaryFolder;

int count_of(const std::string& text, std::string_view part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string content_of(const std::string& path) { return std::filesystem::exists(path) ? read_file(path) : ""; }

// Runs one step. Each `size` gives a different program.
void run_step(std::int64_t size) {
  const Tensor x = Tensor::ones(Type::array(DType::kF32, {size}));
  const Tensor y = x + x;
  mark_step();
}

// Returns the lines that `action` prints to standard error.
template <class F>
std::string errors_of(F&& action) {
  ::testing::internal::CaptureStderr();
  action();
  return ::testing::internal::GetCapturedStderr();
}

// ---- advice and analyses ------------------------------------------------------------------------------------------------

TEST(DebugReport, AdviceIsGivenOnceWhenItFirstAppliesAndAnalysesPerCompilation) {
  const FreshRank rank;
  const TemporaryFolder folder;
  options().set("PT_XLA_DEBUG_LEVEL", "1");
  options().set("PT_XLA_DEBUG_FILE", folder.file("report"));
  for (int step = 0; step < 10; ++step) run_step(step + 2);
  std::string text = content_of(folder.file("report"));
  EXPECT_EQ(count_of(text, "pt-xla-profiler"), 0) << text;
  EXPECT_EQ(count_of(text, "Compilation Analysis: Compilation Cause\n"), 10) << text;
  EXPECT_EQ(count_of(text, "Compilation Analysis:   mark_step at environment_test.cpp:"), 10);
  EXPECT_EQ(count_of(text, "Execution Analysis"), 0);
  run_step(12);
  run_step(13);
  text = content_of(folder.file("report"));
  EXPECT_EQ(count_of(text, "pt-xla-profiler: CompileTime too frequent: 11 counts during 11 steps\n"), 1) << text;
  EXPECT_EQ(count_of(text, "pt-xla-profiler: CompileTime too frequent"), 1) << text;
  run_step(13);  // cached
  EXPECT_EQ(count_of(content_of(folder.file("report")), "Compilation Analysis: Compilation Cause\n"), 12);
}

TEST(DebugReport, LevelTwoAnalysesEveryExecution) {
  const FreshRank rank;
  const TemporaryFolder folder;
  options().set("PT_XLA_DEBUG_LEVEL", "2");
  options().set("PT_XLA_DEBUG_FILE", folder.file("report"));
  for (int step = 0; step < 3; ++step) run_step(5);
  const std::string text = content_of(folder.file("report"));
  EXPECT_EQ(count_of(text, "Execution Analysis: Execution Cause\n"), 3) << text;
  EXPECT_EQ(count_of(text, "Compilation Analysis:   Number of Graph Outputs: 2\n"), 1) << text;
}

TEST(DebugReport, NothingIsPrintedUnlessRequested) {
  const FreshRank rank;
  EXPECT_EQ(errors_of([] {
              for (int step = 0; step < 12; ++step) run_step(step + 2);
            }),
            "");
}

TEST(DebugReport, CompilationsAndCacheHitsAddUpToExecutions) {
  const FreshRank rank;
  for (const std::int64_t size : {2, 3, 2, 2, 5}) run_step(size);
  EXPECT_EQ(metrics().metric_data("CompileTime")->total_samples, 3);
  EXPECT_EQ(metrics().counter_value("CachedCompile"), 2);
  EXPECT_EQ(metrics().metric_data("ExecuteTime")->total_samples, 5);
}

// Does what launch() does, for a program of `ranks` virtual ranks that runs `steps` steps.
void launch_steps(int ranks, int steps) {
  std::string name = "program", flag = fmt::format("--virtual_ranks={}", ranks);
  char* words[] = {name.data(), flag.data(), nullptr};
  EXPECT_EQ(launch(2, words,
                   [&](int, char**) {
                     for (int step = 0; step < steps; ++step) run_step(step + 2);
                     return 0;
                   }),
            0);
}

// Sets an environment variable for a scope. Ranks read it when they start.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(DebugReport, OnlyRankZeroPrintsAdviceAndAtTheEndTheFinalCounts) {
  const Variable debug("PT_XLA_DEBUG", "1");
  const std::string text = errors_of([] { launch_steps(2, 13); });
  EXPECT_EQ(count_of(text, "CompileTime too frequent: 11 counts during 11 steps\n"), 1) << text;
  EXPECT_EQ(count_of(text, "CompileTime too frequent: 13 counts during 13 steps\n"), 1) << text;
  EXPECT_EQ(count_of(text, "CompileTime too frequent"), 2) << text;
}

TEST(DebugReport, EachStepAddsToTheMetricsFileOfItsRank) {
  const TemporaryFolder folder;
  const Variable file("XLA_METRICS_FILE", folder.file("metrics"));
  launch_steps(2, 3);
  for (const char* name : {"metrics", "metrics.1"}) {
    const std::string text = content_of(folder.file(name));
    for (const char* part : {"[MetricsData; step=1]\n", "[MetricsData; step=3]\n", "[MetricsData; end]\n"})
      EXPECT_EQ(count_of(text, part), 1) << name << ": " << text;
    EXPECT_EQ(count_of(text, "Counter: MarkStep\n  Value: 3\n"), 2) << name << ": " << text;
  }
}

TEST(DebugReport, FilesThatCannotBeWrittenCauseOneWarningEach) {
  const Variable metrics_file("XLA_METRICS_FILE", "/no/such/folder/metrics");
  const Variable debug("PT_XLA_DEBUG", "1");
  const Variable debug_file("PT_XLA_DEBUG_FILE", "/no/such/folder/report");
  const Variable dumps("TESSERA_DUMP_DIR", "/dev/null/dumps");
  const std::string text = errors_of([] { launch_steps(1, 3); });
  for (const std::string name : {"XLA_METRICS_FILE", "PT_XLA_DEBUG_FILE", "TESSERA_DUMP_DIR"})
    EXPECT_EQ(count_of(text, "warning: " + name + ": cannot "), 1) << text;
  EXPECT_EQ(count_of(text, "cannot write /no/such/folder/metrics: No such file or directory; the run continues"), 1)
      << text;
  EXPECT_EQ(count_of(text, "\n"), 3) << text;
}

// ---- start and log level ------------------------------------------------------------------------------------------------

TEST(Start, UnknownVariablesCauseOneWarningOnRankZero) {
  const Variable wrong("TESSERA_DUMPDIR", "x");
  const Variable old("XRT_TPU_CONFIG", "tpu_worker;0;10.0.0.2:8470");
  const Variable groups("XLA_AUTO_USE_GROUP_SHARDING", "1");
  const Variable bf16("XLA_USE_BF16", "1");
  const Variable dump("XLA_SAVE_TENSORS_FILE", "x");
  const std::string text = errors_of([] { launch_steps(3, 1); });
  for (const char* line : {"XLA_AUTO_USE_GROUP_SHARDING is ignored: auto mode considers all shardings of an op",
                           "XLA_USE_BF16 is ignored: use --bf16 or autocast to compute in bfloat16",
                           "XLA_SAVE_TENSORS_FILE is ignored: use TESSERA_DUMP_DIR, or dump_ir and dump_hlo"})
    EXPECT_EQ(count_of(text, std::string("warning: ") + line), 1) << text;
  EXPECT_EQ(
      count_of(text, "warning: unknown environment variable TESSERA_DUMPDIR; did you mean \"TESSERA_DUMP_DIR\"?\n"), 1)
      << text;
  EXPECT_EQ(count_of(text, "warning: XRT_TPU_CONFIG is ignored: it belongs to the XRT runtime"), 1) << text;
  const Variable level("TESSERA_LOG_LEVEL", "error");
  EXPECT_EQ(errors_of([] { launch_steps(3, 1); }), "");
}

TEST(Start, DebugLevelReportsEveryCompilation) {
  const Variable level("TESSERA_LOG_LEVEL", "debug");
  const std::string text = errors_of([] { launch_steps(2, 1); });
  EXPECT_EQ(count_of(text, "rank 0 compiled step for mark_step at environment_test.cpp:"), 1) << text;
  EXPECT_EQ(count_of(text, "rank 1 compiled step"), 1) << text;
}

TEST(Start, AnUnknownLogLevelIsAnErrorThatListsTheLevels) {
  EXPECT_EQ(testing::error_of([] { Options().set("TESSERA_LOG_LEVEL", "warn"); }),
            "TESSERA_LOG_LEVEL=warn: unknown value; known: debug, info, warning, error (the least important lines on "
            "standard error)");
}

// Does what launch() does for these words of a command line. Returns its result and what it printed to standard error.
std::pair<int, std::string> launched(std::vector<std::string> words, const std::function<int(int, char**)>& body) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  int code = -1;
  const std::string text = errors_of([&] { code = launch(static_cast<int>(words.size()), list.data(), body); });
  return {code, text};
}

TEST(Start, CpuNumDevicesMakesRanksOfAProcess) {
  const Variable devices("CPU_NUM_DEVICES", "3");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"program"}, {"program", "--num_cores=3"}}) {
    std::atomic<int> ranks = 0;
    const auto [code, text] = launched(words, [&](int count, char**) {
      EXPECT_EQ(count, 1);
      EXPECT_EQ(job_info().ranks, 3);
      EXPECT_TRUE(job_info().is_virtual);
      ++ranks;
      return 0;
    });
    EXPECT_EQ(code, 0) << text;
    EXPECT_EQ(ranks, 3);
  }
}

TEST(Start, TheNamesOfTheNumberOfRanksMustAgree) {
  std::atomic<int> ranks = 0;
  const auto count_ranks = [&](int count, char**) {
    EXPECT_EQ(count, 1);
    ++ranks;
    return 0;
  };
  const auto wrong = launched({"program", "--virtual_ranks", "2", "--num_cores=3"}, count_ranks);
  EXPECT_EQ(wrong.first, 2);
  EXPECT_EQ(wrong.second,
            "error: --virtual_ranks 2 and --num_cores 3 are names of one flag with different values; give only one\n");
  EXPECT_EQ(ranks, 0);
  EXPECT_EQ(launched({"program", "--virtual_ranks", "2", "--num-cores", "3", "--virtual_ranks=3"}, count_ranks).first,
            0);
  EXPECT_EQ(ranks, 3) << "the last value of a name counts";
}

TEST(Start, CpuNumDevicesMustAgreeWithTheFlagAndWithMpirun) {
  const auto never = [](int, char**) {
    ADD_FAILURE() << "the program ran";
    return 0;
  };
  const Variable devices("CPU_NUM_DEVICES", "3");
  const auto flag = launched({"program", "--virtual_ranks", "2"}, never);
  EXPECT_EQ(flag.first, 2);
  EXPECT_EQ(flag.second, "error: --virtual_ranks 2 and CPU_NUM_DEVICES=3 contradict each other; give one\n");
  const Variable started("OMPI_COMM_WORLD_SIZE", "2");
  const auto mpirun = launched({"program"}, never);
  EXPECT_EQ(mpirun.first, 2);
  EXPECT_EQ(mpirun.second,
            "error: CPU_NUM_DEVICES=3 creates ranks as threads, but mpirun already started 2 processes; use one of the "
            "two\n");
}

TEST(Start, AFileWithFlagsMayHaveVirtualRanks) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("a.json", R"({"virtual_ranks": 3})");
  const auto ranks_of = [](const std::vector<std::string>& words) {
    int ranks = 0;
    const auto [code, text] = launched(words, [&](int, char**) {
      if (joined_world()->rank() == 0) ranks = job_info().ranks;
      return 0;
    });
    EXPECT_EQ(code, 0) << text;
    return ranks;
  };
  EXPECT_EQ(ranks_of({"program", file}), 3);
  EXPECT_EQ(ranks_of({"program", file, "--virtual_ranks", "2"}), 2) << "a flag replaces the value of the file";
  const std::string wrong = folder.write("b.json", R"({"virtual_ranks": -1})");
  const auto [code, text] = launched({"program", wrong}, [](int, char**) { return 0; });
  EXPECT_EQ(code, 2);
  EXPECT_EQ(text, "error: " + wrong + ": --virtual_ranks needs a number from 1 to 4096, got -1\n");
}

TEST(Start, CpuNumDevicesNeedsLaunch) {
  const Variable devices("CPU_NUM_DEVICES", "3");
  RankContext context(0, 1);
  const RankScope scope(context);
  std::string name = "program";
  char* words[] = {name.data(), nullptr};
  EXPECT_EQ(testing::error_of([&] { const Runtime runtime(1, words); }),
            "CPU_NUM_DEVICES=3 needs tessera::launch(argc, argv, body) around the program; a Runtime alone does not "
            "create ranks");
}

TEST(Start, AnUnknownBackendIsAnErrorThatListsTheBackends) {
  const Variable backend("PJRT_DEVICE", "TPU");
  const auto [code, text] = launched({"program", "--virtual_ranks=1"}, [](int, char**) {
    ADD_FAILURE() << "the program ran";
    return 0;
  });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(text, "error: PJRT_DEVICE=TPU: unknown backend; known: CPU, REFERENCE\n");
}

// ---- the cache of partitioned programs ------------------------------------------------------------------------------------

// The sum of a sharded matrix product over `rows` rows on 3 ranks, and the metrics of rank 0 afterwards.
struct RunOutcome {
  float sum = 0;
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t failures = 0;
  std::size_t notes = 0;
};
RunOutcome run_sharded(const std::string& folder, std::int64_t rows = 5) {
  RunOutcome out;
  on_ranks(3, [&](int rank) {
    options().set("TESSERA_CACHE_DIR", folder);
    const Tensor x = Tensor::from<float>({rows, 7}, std::vector<float>(static_cast<std::size_t>(rows) * 7, 1.0F));
    mark_sharding(x, Mesh({{"data", 3}}), {{}, "data"});
    const Tensor total = sum(matmul(x, Tensor::ones(Type::array(DType::kF32, {7, 2}))));
    mark_step();
    const auto value = static_cast<float>(total.item());
    if (rank != 0) return;
    out.sum = value;
    out.hits = metrics().counter_value("PersistentCacheHit").value_or(0);
    out.misses = metrics().counter_value("PersistentCacheMiss").value_or(0);
    out.failures = metrics().counter_value("PersistentCacheDeserializeFailure").value_or(0);
    out.notes = compiled_programs().back().notes.size();
  });
  return out;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out.push_back(entry.path().string());
  return out;
}

TEST(ProgramCache, ASecondRunReadsTheResultOfTheFirst) {
  const TemporaryFolder folder;
  const std::string cache = folder.file("made/by/it");
  const RunOutcome first = run_sharded(cache);
  EXPECT_EQ(first.sum, 70);
  EXPECT_EQ(first.hits, 0);
  EXPECT_EQ(first.misses, 1);
  EXPECT_GT(first.notes, 0U);
  const auto files = files_in(cache);
  ASSERT_EQ(files.size(), 1U);
  const auto written = std::filesystem::last_write_time(files[0]);
  const RunOutcome second = run_sharded(cache);
  EXPECT_EQ(second.sum, 70);
  EXPECT_EQ(second.hits, 1);
  EXPECT_EQ(second.misses, 0);
  EXPECT_EQ(second.notes, first.notes);
  EXPECT_EQ(std::filesystem::last_write_time(files[0]), written);
  const RunOutcome other = run_sharded(cache, 4);
  EXPECT_EQ(other.sum, 56);
  EXPECT_EQ(other.misses, 1);
  EXPECT_EQ(files_in(cache).size(), 2U);
}

// Checks a run for which the only file of the cache has `content` instead: it prints a warning, and restores the file.
void expect_ignored(const std::string& content, const std::string& original, const std::string& path,
                    const std::string& why) {
  write_file(path, content);
  RunOutcome outcome;
  const std::string text =
      errors_of([&] { outcome = run_sharded(std::filesystem::path(path).parent_path().string()); });
  EXPECT_EQ(text, fmt::format("warning: {} is ignored: {}; the program is partitioned again\n", path, why));
  EXPECT_EQ(outcome.sum, 70);
  EXPECT_EQ(outcome.hits, 0);
  EXPECT_EQ(outcome.failures, 1);
  EXPECT_EQ(read_file(path), original);
}

TEST(ProgramCache, ADamagedFileCausesAWarningAndIsRewritten) {
  const TemporaryFolder folder;
  run_sharded(folder.file("cache"));
  const std::string path = files_in(folder.file("cache")).at(0);
  const std::string original = read_file(path);
  const std::string damaged = "it is damaged";
  expect_ignored("", original, path, damaged);
  expect_ignored(original.substr(0, 40), original, path, damaged);
  expect_ignored(original.substr(0, original.size() - 1), original, path, damaged);
  expect_ignored(original + " ", original, path, damaged);
  for (const std::size_t at :
       {original.size() / 2, original.size() - 20, original.find("checksum") + 9, original.find("key") + 5}) {
    std::string flipped = original;
    flipped[at] = flipped[at] == '1' ? '2' : '1';
    expect_ignored(flipped, original, path, damaged);
  }
  std::string other_build = original;
  other_build.insert(other_build.find("build ") + 6, "9.9.9-");
  expect_ignored(other_build, original, path, "another build of Tessera wrote it");
}

TEST(ProgramCache, AFolderThatCannotBeWrittenCausesOneWarning) {
  const TemporaryFolder folder;
  const std::string file = folder.write("occupied", "a file");
  RunOutcome outcome;
  const std::string text = errors_of([&] { outcome = run_sharded(file + "/cache"); });
  EXPECT_EQ(outcome.sum, 70);
  EXPECT_EQ(count_of(text, "warning: TESSERA_CACHE_DIR: "), 1) << text;
  EXPECT_EQ(count_of(text, "\n"), 1) << text;
}

}  // namespace
}  // namespace tessera

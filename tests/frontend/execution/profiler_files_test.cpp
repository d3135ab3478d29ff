// SPDX-License-Identifier: Apache-2.0
// When a trace is recorded, and what happens if its file cannot be written.
#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>

#include "frontend/execution/traced_program.h"
#include "support/temporary_folder.h"
#include "tessera/base/rank_context.h"
#include "tessera/frontend/execution/profiler.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::TemporaryFolder;
using testing::TraceReader;

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (auto place = text.find(part); place != std::string::npos; place = text.find(part, place + 1)) ++count;
  return count;
}

// ---- start and stop -----------------------------------------------------------------------------------------------------

TEST(TraceFiles, OnlyWhatHappensBetweenStartAndStopIsInTheFile) {
  const TemporaryFolder folder;
  const FreshRank rank;
  { const profiler::Trace scope("before"); }
  profiler::start_trace(folder.file("one.json"));
  { const profiler::Trace scope("first"); }
  profiler::stop_trace();
  { const profiler::Trace scope("between"); }
  profiler::start_trace(folder.file("two.json"));
  { const profiler::Trace scope("second"); }
  profiler::stop_trace();
  for (const auto& [file, name] : {std::pair("one.json", "first"), std::pair("two.json", "second")}) {
    const TraceReader trace(folder.file(file));
    EXPECT_EQ(trace.events.size(), 1U) << file;
    EXPECT_EQ(only(trace, 1, "scope").name, name);
    EXPECT_GE(only(trace, 1, "scope").begin, 0);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(TraceFiles, WrongCallsAreErrors) {
  const TemporaryFolder folder;
  const FreshRank rank;
  const std::string one = folder.file("one.json"), two = folder.file("two.json");
  EXPECT_EQ(error_of([] { profiler::stop_trace(); }),
            "stop_trace: no trace is being recorded; call start_trace() first");
  EXPECT_EQ(error_of([] { profiler::start_trace(""); }),
            "start_trace: the path is empty; give the name of a file, such as trace.json");
  EXPECT_EQ(error_of([&] { profiler::start_trace(one, {.level = 3}); }),
            "start_trace: the level must be 1 or 2, got 3");
  EXPECT_EQ(error_of([&] { profiler::start_trace(one, {.most_events = 0}); }),
            "start_trace: most_events must be at least 1, got 0");
  profiler::start_trace(one);
  EXPECT_EQ(error_of([&] { profiler::start_trace(two); }),
            fmt::format("start_trace {}: {} is being recorded; call stop_trace() first", two, one));
  profiler::stop_trace();
  EXPECT_NE(error_of([] { profiler::stop_trace(); }), "no error");
}

TEST(TraceFiles, FurtherEventsAreCountedInTheFileAndInOneWarning) {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  ::testing::internal::CaptureStderr();
  on_ranks(2, [&](int rank) {
    profiler::start_trace(path, {.most_events = 10});
    for (int i = 0; i < 12 + rank; ++i) const profiler::Trace scope("scope");
    profiler::stop_trace();
  });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            fmt::format("warning: {}: 5 events are missing, because a rank records at most 10; record fewer steps with "
                        "start_trace() and stop_trace()\n",
                        path));
  const TraceReader trace(path);
  EXPECT_EQ(trace.number("dropped_events"), 5);
  EXPECT_EQ(trace.find(1, "scope").size(), 10U);
  EXPECT_EQ(trace.find(2, "scope").size(), 10U);
}

TEST(TraceFiles, ALongTraceIsCompleteAndInOrder) {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  constexpr std::int64_t kEvents = 40'001;  // several blocks
  on_ranks(2, [&](int) {
    profiler::start_trace(path);
    for (std::int64_t step = 0; step < kEvents; ++step) const profiler::StepTrace scope("train", step);
    profiler::stop_trace();
  });
  const TraceReader trace(path);
  for (const std::int64_t process : {1, 2}) {
    const auto steps = trace.find(process, "step");
    ASSERT_EQ(std::ssize(steps), kEvents);
    for (std::int64_t step = 0; step < kEvents; ++step)
      ASSERT_EQ(steps[static_cast<std::size_t>(step)].number("step"), step);
  }
}

// ---- files that cannot be written ---------------------------------------------------------------------------------------

TEST(TraceFiles, AFileThatCannotBeWrittenCausesAWarningForEachRecording) {
  ::testing::internal::CaptureStderr();
  on_ranks(2, [&](int) {
    for (int round = 0; round < 2; ++round) {
      profiler::start_trace("/no/such/folder/trace.json");
      EXPECT_FALSE(Timeline::current().is_on());
      EXPECT_EQ(sharded_sum(3).item(), 3 * 6 * 5);
      profiler::stop_trace();
    }
  });
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(text, "warning: start_trace /no/such/folder/trace.json: "), 1U) << text;
  EXPECT_EQ(count_of(text, "warning: start_trace /no/such/folder/trace.json (recording 2): "), 1U) << text;
  EXPECT_EQ(count_of(text, "No such file or directory; the run continues"), 2U) << text;
  EXPECT_EQ(count_of(text, "\n"), 2U) << text;
}

// The folder disappears while the trace is recorded.
TEST(TraceFiles, AFileThatCannotBeWrittenAtTheEndCausesOneWarning) {
  const TemporaryFolder folder;
  const std::string place = folder.file("gone");
  std::filesystem::create_directory(place);
  ::testing::internal::CaptureStderr();
  on_ranks(2, [&](int rank) {
    profiler::start_trace(place + "/trace.json");
    joined_world()->barrier();
    if (rank == 0) std::filesystem::remove(place);
    profiler::stop_trace();
  });
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(text, "warning: start_trace " + place + "/trace.json: "), 1U) << text;
  EXPECT_EQ(count_of(text, "\n"), 1U) << text;
}

// ---- the environment ----------------------------------------------------------------------------------------------------

// Sets an environment variable for a scope. Ranks read it when they start.
class TraceVariable {
 public:
  explicit TraceVariable(const std::string& value) { ::setenv("TESSERA_TRACE_FILE", value.c_str(), 1); }
  ~TraceVariable() { ::unsetenv("TESSERA_TRACE_FILE"); }
  TraceVariable(const TraceVariable&) = delete;
  TraceVariable& operator=(const TraceVariable&) = delete;
};

// Does what launch() does, for a program of `ranks` virtual ranks.
int launch_traced(int ranks, const std::function<void()>& body) {
  std::string name = "program", flag = fmt::format("--virtual_ranks={}", ranks);
  char* words[] = {name.data(), flag.data(), nullptr};
  return launch(2, words, [&](int, char**) {
    body();
    return 0;
  });
}

TEST(TraceFiles, TheEnvironmentRecordsAWholeProgram) {
  const TemporaryFolder folder;
  const TraceVariable variable(folder.file("trace.json"));
  EXPECT_EQ(launch_traced(2, [] { (void)sharded_sum(3).item(); }), 0);
  const TraceReader trace(folder.file("trace.json"));
  EXPECT_EQ(trace.processes.size(), 2U);
  for (const std::int64_t process : {1, 2}) EXPECT_TRUE(has(trace, process, "collective", "all-reduce"));
}

TEST(TraceFiles, StopTraceEndsTheTraceOfTheEnvironment) {
  const TemporaryFolder folder;
  const TraceVariable variable(folder.file("trace.json"));
  const std::string other = folder.file("other.json");
  EXPECT_EQ(launch_traced(2,
                          [&] {
                            EXPECT_NE(error_of([&] { profiler::start_trace(other); }), "no error");
                            profiler::stop_trace();
                            profiler::start_trace(other);
                            { const profiler::Trace scope("late"); }
                          }),
            0);
  EXPECT_FALSE(has(TraceReader(folder.file("trace.json")), 1, "scope", "late"));
  EXPECT_TRUE(has(TraceReader(other), 1, "scope", "late")) << "the end of the program stops the trace";
}

TEST(TraceFiles, AnUnwritableFileOfTheEnvironmentCausesOneWarning) {
  const TraceVariable variable("/no/such/folder/trace.json");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(launch_traced(2, [] { (void)sharded_sum(3).item(); }), 0);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(text, "warning: TESSERA_TRACE_FILE: "), 1U) << text;
  EXPECT_EQ(count_of(text, "\n"), 1U) << text;
}

TEST(TraceFiles, AfterAnErrorRanksWriteTheirOwnEvents) {
  const TemporaryFolder folder;
  const TraceVariable variable(folder.file("trace.json"));
  ::testing::internal::CaptureStderr();
  const int status = launch_traced(2, [] {
    { const profiler::Trace scope("before the error"); }
    require(RankContext::current().rank() == 0, "the cable is cut");
    joined_world()->barrier();
  });
  EXPECT_EQ(count_of(::testing::internal::GetCapturedStderr(), "the cable is cut"), 1U);
  EXPECT_EQ(status, 1);
  EXPECT_FALSE(std::filesystem::exists(folder.file("trace.json")));
  for (const int rank : {0, 1}) {
    const TraceReader trace(folder.file(fmt::format("trace.json.rank-{}", rank)));
    EXPECT_EQ(trace.processes, std::vector<std::string>{fmt::format("rank {}", rank)});
    EXPECT_TRUE(has(trace, rank + 1, "scope", "before the error"));
  }
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// What the file of a trace contains.
#include "tessera/frontend/execution/profiler.h"

#include <gtest/gtest.h>

#include <thread>

#include "frontend/execution/traced_program.h"
#include "support/gate.h"
#include "support/gated_group.h"
#include "support/temporary_folder.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::TemporaryFolder;
using testing::TracedEvent;
using testing::TraceReader;

// ---- what is in the file ------------------------------------------------------------------------------------------------

TEST(Profiler, TheFileHasTheStepsOfEveryRank) {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  on_ranks(3, [&](int) {
    options().set("TESSERA_ASYNC", "0");
    profiler::start_trace(path);
    for (std::int64_t step = 4; step < 6; ++step) {
      const profiler::StepTrace scope("train", step);
      EXPECT_EQ(sharded_sum(7).item(), 7 * 6 * 5);
      mark_step();
    }
    profiler::stop_trace();
  });
  const TraceReader trace(path);
  EXPECT_EQ(trace.processes, (std::vector<std::string>{"rank 0", "rank 1", "rank 2"}));
  EXPECT_EQ(trace.number("ranks"), 3);
  EXPECT_EQ(trace.number("dropped_events"), 0);
  for (const std::int64_t process : {1, 2, 3}) {
    const auto steps = trace.find(process, "step", "train");
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_EQ(steps[0].number("step"), 4);
    EXPECT_EQ(steps[1].number("step"), 5);
    EXPECT_LE(steps[0].end, steps[1].begin);
    EXPECT_EQ(steps[0].row, "main");
    const auto runs = trace.find(process, "execute");
    ASSERT_GE(runs.size(), 2U);
    EXPECT_TRUE(steps[0].contains(runs[0]));
    EXPECT_EQ(runs[0].argument("hash").size(), 16U);
    EXPECT_TRUE(runs[0].contains(trace.find(process, "collective", "start").at(0)));
    const auto reductions = trace.find(process, "collective", "all-reduce");
    ASSERT_GE(reductions.size(), 2U);
    EXPECT_TRUE(runs[0].contains(reductions[0]));
    EXPECT_GT(reductions[0].number("bytes"), 0);
    EXPECT_EQ(reductions[0].argument("over"), "data");
  }
}

TEST(Profiler, ACompilationContainsItsStages) {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  on_ranks(2, [&](int) {
    options().set("TESSERA_ASYNC", "0");
    profiler::start_trace(path);
    for (int call = 0; call < 2; ++call) {
      (void)sharded_sum(5).item();
      mark_step();  // ends the trace
    }
    profiler::stop_trace();
  });
  const TraceReader trace(path);
  for (const std::int64_t process : {1, 2}) {
    const TracedEvent compile = only(trace, process, "compile", "compile");
    for (const char* stage : {"PartitionTime", "CompileTime", "kernels"})
      EXPECT_TRUE(compile.contains(only(trace, process, "compile", stage))) << stage;
    EXPECT_TRUE(compile.argument("for").starts_with("read of ")) << compile.argument("for");
    EXPECT_GE(trace.find(process, "execute").size(), 2U);
  }
  // The ranks are threads, so that one of them plans for both.
  const std::int64_t planner = trace.find(1, "compile", "lower").empty() ? 2 : 1;
  EXPECT_TRUE(trace.find(3 - planner, "compile", "lower").empty());
  for (const char* stage : {"lower", "schedule"})
    EXPECT_TRUE(only(trace, planner, "compile", "CompileTime").contains(only(trace, planner, "compile", stage)))
        << stage;
  EXPECT_FALSE(trace.find(1, "pass").empty()) << "rank 0 partitions";
  EXPECT_TRUE(trace.find(2, "pass").empty()) << "for rank 1 too";
}

TEST(Profiler, EventsOfARowAreNestedOrApart) {
  const TemporaryFolder folder;
  const FreshRank rank;
  profiler::start_trace(folder.file("trace.json"), {.level = 2});
  {
    const profiler::Trace outer("outer \"scope\"\n");
    const profiler::Trace inner("inner");
    const Tensor x = Tensor::ones(Type::array(DType::kF32, {3})) * 2.0;
    mark_step();
    EXPECT_EQ(sum(x).item(), 6);
  }
  profiler::stop_trace();
  const TraceReader trace(folder.file("trace.json"));
  for (const TracedEvent& a : trace.events)
    for (const TracedEvent& b : trace.events)
      EXPECT_TRUE(a.row != b.row || a.contains(b) || b.contains(a) || a.end <= b.begin || b.end <= a.begin)
          << a.name << ", " << b.name;
  EXPECT_TRUE(only(trace, 1, "scope", "outer \"scope\"\n").contains(only(trace, 1, "scope", "inner")));
}

TEST(Profiler, LevelTwoRecordsEveryScheduleStep) {
  const TemporaryFolder folder;
  for (const int level : {1, 2}) {
    const FreshRank rank;
    const std::string path = folder.file(fmt::format("trace{}.json", level));
    options().set("TESSERA_TRACE_LEVEL", std::to_string(level));
    profiler::start_trace(path);
    const Tensor x = Tensor::from<float>({4, 3}, std::vector<float>(12, 2));
    (void)matmul(x, Tensor::from<float>({3, 5}, std::vector<float>(15, 3))).to_host();
    profiler::stop_trace();
    const TraceReader trace(path);
    const auto ops = trace.find(1, "op");
    EXPECT_EQ(ops.empty(), level == 1);
    const bool has_product =
        std::any_of(ops.begin(), ops.end(), [](const TracedEvent& op) { return op.argument("op") == "dot"; });
    EXPECT_EQ(has_product, level == 2);
    for (const TracedEvent& op : ops) {
      EXPECT_TRUE(only(trace, 1, "execute").contains(op));
      EXPECT_FALSE(op.name.empty());
    }
  }
}

TEST(Profiler, AReadHasItsLineAndWhatItWaitsFor) {
  const TemporaryFolder folder;
  const FreshRank rank;
  profiler::start_trace(folder.file("trace.json"));
  Tensor total = Tensor::ones(Type::array(DType::kF32, {3})) * 2.0;
  total.set_name("total");
  (void)total.to_host();
  profiler::stop_trace();
  const TraceReader trace(folder.file("trace.json"));
  const TracedEvent read = only(trace, 1, "read");
  EXPECT_TRUE(read.name.find("total") != std::string::npos && read.name.find("profiler_test.cpp:") != std::string::npos)
      << read.name;
  EXPECT_TRUE(read.contains(only(trace, 1, "execute")));
  EXPECT_TRUE(has(trace, 1, "transfer", "TransferFromDeviceTime"));
}

TEST(Profiler, ACompiledFunctionIsTracedOnce) {
  const TemporaryFolder folder;
  const FreshRank rank;
  profiler::start_trace(folder.file("trace.json"));
  CompiledFunction twice = compile([](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + in[0]}; });
  for (int call = 0; call < 3; ++call) (void)twice({Tensor::from<float>({2}, {1, 2})});
  profiler::stop_trace();
  const TraceReader trace(folder.file("trace.json"));
  EXPECT_EQ(only(trace, 1, "trace").row, "tracing");
  EXPECT_EQ(trace.find(1, "execute").size(), 3U);
}

// ---- overlap ------------------------------------------------------------------------------------------------------------

// The first program cannot end before the second step is traced.
TEST(Profiler, TracingOverlapsTheExecutionOfTheFormerStep) {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  ::tessera::testing::Gate traced[2];
  run_virtual_ranks(2, [&](ProcessGroup& world) {
    const auto main_thread = std::this_thread::get_id();
    join_world(std::make_shared<testing::GatedGroup>(world, [&, main_thread, rank = world.rank()] {
      EXPECT_TRUE(std::this_thread::get_id() == main_thread || traced[rank].wait());
    }));
    options().set("TESSERA_ASYNC", "1");
    profiler::start_trace(path);
    const Tensor x = Tensor::from<float>({2}, {1, 2}) * 2.0;
    mark_step();
    const Tensor y = x + 1.0;
    traced[world.rank()].open();
    mark_step();
    profiler::stop_trace();
  });
  const TraceReader trace(path);
  for (const std::int64_t process : {1, 2}) {
    const auto traces = trace.find(process, "trace");
    const auto runs = trace.find(process, "execute");
    ASSERT_EQ(traces.size(), 2U);
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(traces[0].row, "tracing");
    EXPECT_EQ(runs[0].row, "execution worker");
    EXPECT_LE(traces[0].end, runs[0].begin);
    EXPECT_LT(traces[1].begin, runs[0].end);
    EXPECT_LE(runs[0].end, runs[1].begin);
    EXPECT_TRUE(has(trace, process, "wait", "DeviceLockWait"));
  }
}

}  // namespace
}  // namespace tessera

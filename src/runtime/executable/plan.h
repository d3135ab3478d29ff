// SPDX-License-Identifier: Apache-2.0
// A scheduled computation with a kernel for every step: the code that a rank runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executable/host_file.h"
#include "executable/shared_views.h"
#include "kernels/kernel.h"
#include "metrics/run_records.h"
#include "tessera/collectives/process_group.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

/// Measures how long a rank computes while overlapped collectives are in flight. The plans of loops and branches share
/// the clock of the run.
class OverlapClock {
 public:
  /// The rank begins to communicate or to wait.
  void pause(std::int64_t time) {
    if (in_flight_ > 0) nanoseconds_ += time - since_;
  }
  /// The rank continues to compute.
  void resume(std::int64_t time) { since_ = time; }
  /// A collective has started or ended. Called while the clock is paused.
  void start() { ++in_flight_; }
  void end() { --in_flight_; }
  [[nodiscard]] std::int64_t nanoseconds() const { return nanoseconds_; }

 private:
  int in_flight_ = 0;
  std::int64_t since_ = 0;
  std::int64_t nanoseconds_ = 0;
};

/// The figures that a run collects.
struct RunState {
  std::byte* workspace = nullptr;
  HostFile* file = nullptr;  // null if the program moves no value to a file
  double flops = 0;
  TrafficCounters traffic;
  std::int64_t communication_nanoseconds = 0;  // of the collectives, including waits for peers
  std::uint64_t progress = 0;                  // of the world before the run (ProcessGroup::advance)
  // Called before a step overwrites a leaf of the parameters; empty unless another thread reads one of them.
  std::function<void(std::int32_t leaf)> before_overwrite = {};
  OverlapClock overlap = {};
};

/// The addresses of the buffers of a plan in one run.
struct Frame {
  std::span<std::byte* const> pointers;  // by BufferId
  RunState& state;
  const SharedViews* shared = nullptr;  // of this plan
  [[nodiscard]] std::byte* operator[](BufferId buffer) const {
    return buffer == kNoBuffer ? nullptr : pointers[static_cast<std::size_t>(buffer)];
  }
};

using PendingOperations = std::vector<std::unique_ptr<PendingOperation>>;

class PlanStep {
 public:
  virtual ~PlanStep() = default;
  /// Returns the group of an all-gather; null for other steps.
  [[nodiscard]] virtual const GatherGroup* gather_group() const { return nullptr; }
  /// The two halves of an overlapped collective: start() begins the transfer, finish() assembles the result.
  virtual PendingOperations start(const Frame& frame) const;
  virtual void finish(const Frame& /*frame*/) const {}
  /// Returns the name of the time metric if the step communicates, or "".
  [[nodiscard]] virtual std::string_view communication() const { return ""; }
  virtual void run(const Frame& frame) const = 0;
};

/// What compiling a plan needs in addition to the schedule.
struct CompileContext {
  const Program& program;
  ProcessGroup& world;
  const ExecutableOptions& options;
  std::int64_t workspace_bytes = 0;         // the maximum of all kernels
  std::int64_t sequence = 0;                // number of the next collective, for the labels of the watchdog
  std::vector<std::string> fallbacks = {};  // ops that run by reference evaluation
};

class Plan {
 public:
  Plan(CompileContext& context, std::shared_ptr<const Schedule> schedule);
  /// `arena` has the schedule's arena_bytes. `parameters` and `results` have one pointer for each leaf.
  void run(std::byte* arena, std::span<std::byte* const> parameters, std::span<std::byte* const> results,
           RunState& state);
  /// Returns the arrays that ranks read from each other in place, or null if there are none.
  [[nodiscard]] SharedViews* shared_views() const { return shared_views_.get(); }
  /// Returns by how much a run increases the progress of the world.
  [[nodiscard]] std::uint64_t progress() const { return shared_views_ ? schedule_->steps.size() + 1 : 0; }
  [[nodiscard]] const Schedule& schedule() const { return *schedule_; }
  void set_profiling(bool on);
  [[nodiscard]] const std::vector<StepProfile>& profile() const { return profile_; }

 private:
  void add_step(CompileContext& context, const Step& step);
  void name_steps(const CompileContext& context);
  void deliver() const;
  void share(ProcessGroup& world);
  void run_steps(const Frame& frame);
  void note_overwrites(const Step& step);
  void prepare(std::size_t step, const Frame& frame);
  void start(std::size_t i, const Frame& frame);
  void complete(const std::vector<std::int32_t>& steps, const Frame& frame);
  // This rank waits until `group` has completed `step`, on behalf of the all-gather at index `gather` of steps_.
  struct Wait {
    ProcessGroup* group = nullptr;
    std::int32_t step = -1;
    std::size_t gather = 0;
  };
  using Waits = std::vector<Wait>;
  void await(const Waits& waits, RunState& state);
  void test_messages(RunState& state);
  void count_times(RunState& state);
  void find_rows(std::int32_t step);
  [[nodiscard]] bool has_no_work(Id id) const;

  std::shared_ptr<const Schedule> schedule_;
  std::vector<Literal> constants_;             // in the order of constant buffers
  std::vector<const std::byte*> constant_of_;  // by BufferId; null for others
  std::vector<std::unique_ptr<PlanStep>> steps_;
  double flops_ = 0;                  // of a run, without those that loops and branches count themselves
  std::vector<StepProfile> about_;    // for each step, without times
  std::vector<StepProfile> profile_;  // for each step, with times; empty unless profiling
  std::vector<std::int64_t> taken_;   // for each step, nanoseconds in the current run, if measured
  std::vector<std::int64_t> ended_;   // for each step, when it ended
  StepEvents events_;                 // of the steps
  std::vector<std::vector<std::int32_t>> overwrites_;  // for each element of steps_, the leaves of parameters
  std::vector<std::int64_t> result_bytes_;
  std::vector<std::byte*> pointers_;  // of the current run
  std::vector<std::byte*> results_;
  std::unique_ptr<SharedViews> shared_views_;
  std::vector<Waits> waits_;  // for each step of the schedule, and at the end; empty without shared views
  // A collective that has started but not finished.
  struct UnderWay {
    std::size_t index = 0;  // in steps_
    PendingOperations operations;
    bool is_in_flight = false;  // no test has shown yet that the operations are complete
  };
  std::map<std::int32_t, UnderWay> under_way_;  // by step of the schedule
  // For each element of steps_, its step in the schedule, where some steps have no kernel.
  std::vector<std::size_t> step_of_;
  ProcessGroup* world_ = nullptr;
  std::size_t next_row_ = 0;  // in the current run: the next row whose address is computed
  // Set for the entry computation in a world of several ranks: ranks that wait for this one can print what it runs.
  ProcessGroup* told_ = nullptr;
  std::vector<std::string> works_;  // for each step
};

/// Returns the step of a collective instruction.
std::unique_ptr<PlanStep> make_collective_step(CompileContext& context, const Schedule& schedule, const Step& step);
/// Returns the step of a while, conditional or call.
std::unique_ptr<PlanStep> make_control_step(CompileContext& context, const Schedule& schedule, const Step& step);

/// Returns the step of an op that exchanges a value with the file of the rank (OpDef::file_transfer).
std::unique_ptr<PlanStep> make_file_step(const CompileContext& context, const Schedule& schedule, const Step& step);

/// Returns the buffers of the leaves of an instruction's operands, and of its results.
std::vector<BufferId> operand_buffers(const Schedule& schedule, const Instruction& instruction);
std::vector<BufferId> result_buffers(const Schedule& schedule, Id id);

}  // namespace tessera

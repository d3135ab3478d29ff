// SPDX-License-Identifier: Apache-2.0
// A scheduled computation with a kernel for every step: what a rank runs.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executable/shared_views.h"
#include "kernels/kernel.h"
#include "tessera/collectives/process_group.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

/// What a run collects.
struct RunState {
  std::byte* workspace = nullptr;
  double flops = 0;
  TrafficCounters traffic;
  std::int64_t communication_nanoseconds = 0;  // of the collectives, waits for peers included
  std::uint64_t progress = 0;                  // of the world before the run (ProcessGroup::advance)
};

/// Where the buffers of a plan are in one run.
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
  /// Of an all-gather.
  [[nodiscard]] virtual const GatherGroup* gather_group() const { return nullptr; }
  /// In two halves, of an overlapped collective: begins; and makes the result of what has arrived.
  virtual PendingOperations start(const Frame& frame) const;
  virtual void finish(const Frame& /*frame*/) const {}
  /// The metric of its time if it communicates, else "".
  [[nodiscard]] virtual std::string_view communication() const { return ""; }
  virtual void run(const Frame& frame) const = 0;
};

/// What compiling needs beside the program.
struct CompileContext {
  const Program& program;
  ProcessGroup& world;
  const CompileOptions& options;
  std::int64_t workspace_bytes = 0;         // grows to the most any kernel needs
  std::int64_t sequence = 0;                // of the collectives, for the watchdog's labels
  std::vector<std::string> fallbacks = {};  // ops that run by reference evaluation
};

class Plan {
 public:
  Plan(CompileContext& context, std::shared_ptr<const Schedule> schedule);
  /// `arena` has the schedule's arena_bytes; `parameters` and `results` one pointer per leaf.
  void run(std::byte* arena, std::span<std::byte* const> parameters, std::span<std::byte* const> results,
           RunState& state);
  /// What the ranks read of each other in place; null if nothing.
  [[nodiscard]] SharedViews* shared_views() const { return shared_views_.get(); }
  /// By how much a run advances the world's progress.
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
  void prepare(std::size_t step, const Frame& frame);
  void start(std::size_t i, const Frame& frame);
  void complete(const std::vector<std::int32_t>& steps, const Frame& frame);
  // A group, the step it must have completed, and the all-gather (as a step here) for which this rank waits.
  struct Wait {
    ProcessGroup* group = nullptr;
    std::int32_t step = -1;
    std::size_t gather = 0;
  };
  using Waits = std::vector<Wait>;
  void await(const Waits& waits, const RunState& state);
  void count_times(RunState& state);

  std::shared_ptr<const Schedule> schedule_;
  std::vector<Literal> constants_;             // by the order of constant buffers
  std::vector<const std::byte*> constant_of_;  // by BufferId; null for others
  std::vector<std::unique_ptr<PlanStep>> steps_;
  double flops_ = 0;                  // of a run, without what loops and branches count themselves
  std::vector<StepProfile> about_;    // per step; without times
  std::vector<StepProfile> profile_;  // per step, with times; empty unless profiling
  std::vector<std::int64_t> taken_;   // per step, nanoseconds of the run under way, if they are asked for
  std::vector<std::int64_t> ended_;   // and when they were over
  std::vector<std::int64_t> result_bytes_;
  std::vector<std::byte*> pointers_;  // of the run under way
  std::vector<std::byte*> results_;
  std::unique_ptr<SharedViews> shared_views_;
  std::vector<Waits> waits_;  // per step of the schedule, and at the end; none without shared views
  // Started and not yet waited for: by the schedule's step, the step here and what is under way.
  std::map<std::int32_t, std::pair<std::size_t, PendingOperations>> under_way_;
  std::vector<std::size_t> step_of_;  // of the schedule, per step here: some cost nothing
  ProcessGroup* world_ = nullptr;
  // Of the entry computation in a world of several ranks: who waits for this one is told what it runs.
  ProcessGroup* told_ = nullptr;
  std::vector<std::string> works_;  // per step
};

/// The step of a collective instruction.
std::unique_ptr<PlanStep> make_collective_step(CompileContext& context, const Schedule& schedule, const Step& step);
/// The step of a while, conditional or call.
std::unique_ptr<PlanStep> make_control_step(CompileContext& context, const Schedule& schedule, const Step& step);

/// The buffers of an instruction's operands' leaves, and of its results' leaves.
std::vector<BufferId> operand_buffers(const Schedule& schedule, const Instruction& instruction);
std::vector<BufferId> result_buffers(const Schedule& schedule, Id id);

}  // namespace tessera

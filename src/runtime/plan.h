// SPDX-License-Identifier: Apache-2.0
// A scheduled computation with a kernel for every step: what a rank runs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel.h"
#include "tessera/collectives/process_group.h"
#include "tessera/runtime/executable.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

/// What a run collects.
struct RunState {
  std::byte* workspace = nullptr;
  double flops = 0;
  TrafficCounters traffic;
};

/// Where the buffers of a plan are in one run.
struct Frame {
  std::span<std::byte* const> pointers;  // by BufferId
  RunState& state;
  [[nodiscard]] std::byte* operator[](BufferId buffer) const {
    return buffer == kNoBuffer ? nullptr : pointers[static_cast<std::size_t>(buffer)];
  }
};

class PlanStep {
 public:
  virtual ~PlanStep() = default;
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
  [[nodiscard]] const Schedule& schedule() const { return *schedule_; }
  void set_profiling(bool on);
  [[nodiscard]] const std::vector<StepProfile>& profile() const { return profile_; }

 private:
  void add_step(CompileContext& context, const Step& step);
  void run_profiled(const Frame& frame);
  void deliver() const;

  std::shared_ptr<const Schedule> schedule_;
  std::vector<Literal> constants_;             // by the order of constant buffers
  std::vector<const std::byte*> constant_of_;  // by BufferId; null for others
  std::vector<std::unique_ptr<PlanStep>> steps_;
  std::vector<StepProfile> about_;    // per step; without times
  std::vector<StepProfile> profile_;  // per step, with times; empty unless profiling
  std::vector<std::int64_t> result_bytes_;
  std::vector<std::byte*> pointers_;  // of the run under way
  std::vector<std::byte*> results_;
};

/// True when the computation, or one it calls, holds a collective.
bool holds_collectives(const Program& program, ComputationId computation);

/// The step of a collective instruction.
std::unique_ptr<PlanStep> make_collective_step(CompileContext& context, const Schedule& schedule, const Step& step);
/// The step of a while, conditional or call.
std::unique_ptr<PlanStep> make_control_step(CompileContext& context, const Schedule& schedule, const Step& step);

/// The buffers of an instruction's operands' leaves, and of its results' leaves.
std::vector<BufferId> operand_buffers(const Schedule& schedule, const Instruction& instruction);
std::vector<BufferId> result_buffers(const Schedule& schedule, Id id);

}  // namespace tessera

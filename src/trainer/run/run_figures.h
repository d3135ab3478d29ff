// SPDX-License-Identifier: Apache-2.0
// Speed and memory of a run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/frontend/execution/runtime.h"
#include "tessera/runtime/metrics/compute_peak.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// The element type in which the products of a run are computed.
DType peak_dtype(const TrainingArguments& arguments, const TrainingSetup& setup);
/// The line for the user.
std::string peak_line(const ComputePeak& peak);
/// The operations of a training step.
struct StepWork {
  double nominal = 0;  // Task::flops()
  std::int64_t parameters = 0;
  double units = 0;  // tokens
  std::string_view unit;
  std::optional<double> attention{};  // Task::flops_of_attention()
  std::optional<double> executed{};   // by all ranks
};
/// Lines that say how the MFU counts operations, and how many are executed.
std::string work_lines(const StepWork& work);
/// Returns the operations of the last step of all ranks. nullopt if this rank has more than one program since number
/// `first`, because the programs of a step may then run several times.
std::optional<double> executed_flops(std::int64_t first);
/// The exposed communication of this rank so far.
struct ExposedCommunication {
  double seconds = 0;  // including the time it waited for other ranks
  std::int64_t programs = 0;
  std::chrono::steady_clock::time_point time;  // of these figures
  /// Returns the seconds of a program since `earlier`, and nullopt if none has ended since then.
  [[nodiscard]] std::optional<double> seconds_per_program(const ExposedCommunication& earlier) const;
  /// Returns the part of the time since `earlier` that was exposed communication; nullopt as above.
  [[nodiscard]] std::optional<double> part_of_time(const ExposedCommunication& earlier) const;
};
ExposedCommunication exposed_communication();

/// The sum of all samples of a metric of this rank, in seconds. 0 if it has none. Waits for a running step.
double seconds_of_metric(std::string_view name);

/// The communication of this rank so far, in seconds.
struct CommunicationSeconds {
  double exposed = 0;     // including the time it waited for other ranks
  double overlapped = 0;  // the rank computed while collectives were in flight
};
CommunicationSeconds communication_seconds();
/// The line for the user about the communication since `earlier`: which part of it computation hid. "" if there was none,
/// or if all ranks share the memory of one node, so that no collective can overlap.
std::string overlap_line(const CommunicationSeconds& earlier);
/// Of the programs of training steps, starting with number `first`, returns the memory of the one that holds most. With
/// gradient accumulation a step has several programs.
ExecutableMemory most_memory_of_steps(std::int64_t first);

}  // namespace tessera::trainer

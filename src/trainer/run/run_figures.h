// SPDX-License-Identifier: Apache-2.0
// Speed and memory of a run.
#pragma once

#include <cstddef>
#include <string>

#include "tessera/frontend/execution/runtime.h"
#include "tessera/runtime/metrics/compute_peak.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// The element type in which the products of a run are computed.
DType peak_dtype(const TrainingArguments& arguments, const TrainingSetup& setup);
/// The line for the user.
std::string peak_line(const ComputePeak& peak);
/// The exposed communication time of this rank so far, including the time it waited for other ranks.
double exposed_communication_seconds();
/// Of the programs of training steps, starting with number `first`, returns the memory of the one that holds most. With
/// gradient accumulation a step has several programs.
ExecutableMemory most_memory_of_steps(std::size_t first);

}  // namespace tessera::trainer

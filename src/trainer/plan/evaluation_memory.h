// SPDX-License-Identifier: Apache-2.0
// Refuses evaluations that do not fit into memory before the first update.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/step_plan.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Returns the memory of a rank while it evaluates a batch on `devices` devices: the parameters and the optimizer state of
/// the training, and what the program of the evaluation adds.
std::int64_t evaluation_bytes(const TrainingArguments& arguments, std::int64_t devices, const ExecutionOptions& how);

/// Returns the bytes that a rank may use, if an evaluation may need more than the training: its batch is larger. Nullopt
/// otherwise, and if there is no limit. Collective. Call it before the task is made, because the task takes memory.
std::optional<std::int64_t> memory_for_evaluation(const TrainingArguments& arguments);

/// Error, on every rank, if an evaluation needs more than `bytes`. Rank 0 plans. Collective.
void check_evaluation_memory(const TrainingArguments& arguments, std::int64_t bytes);

}  // namespace tessera::trainer

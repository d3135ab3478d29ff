// SPDX-License-Identifier: Apache-2.0
// What the training programs do after each has checked its files.
#pragma once

#include <memory>

#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// The task of arguments.program, in a dry run without data. `arguments` must outlive it. Errors: those of the task.
std::unique_ptr<Task> make_task(const TrainingArguments& arguments);

/// Chooses the batch (--auto_find_batch_size) and what is recomputed (--max_memory_per_rank), and then trains, or plans
/// with --dry_run. Collective. Returns the exit status of the program.
int run_task(TrainingArguments arguments);

}  // namespace tessera::trainer

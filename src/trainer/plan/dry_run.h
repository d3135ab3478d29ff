// SPDX-License-Identifier: Apache-2.0
// --dry_run: the plan of a training step for any mesh, without storage and without execution.
#pragma once

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Prints the model, its shardings, and the memory, FLOPs and collectives of a step. With --max_memory_per_rank, first
/// prints the memory and time for several budgets. Rank 0 plans and prints. Returns the exit status of the program.
/// Errors: those of the model and the mesh; a step that does not fit into --max_memory_per_rank.
int dry_run(TrainingArguments arguments);

}  // namespace tessera::trainer

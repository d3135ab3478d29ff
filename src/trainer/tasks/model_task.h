// SPDX-License-Identifier: Apache-2.0
// The task of a Trainer that is given a model and data sets.
#pragma once

#include <memory>

#include "tessera/trainer/trainer.h"

namespace tessera::trainer {

/// Puts the model on the mesh and makes loaders of the data sets. `arguments` must outlive the task.
std::unique_ptr<Task> make_model_task(const TrainingArguments& arguments, TrainerOptions options);

}  // namespace tessera::trainer

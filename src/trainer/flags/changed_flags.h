// SPDX-License-Identifier: Apache-2.0
// Flags that differ between a run and its continuation.
#pragma once

#include <string>
#include <vector>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Compares the flags that determine the values of a training with those in training_args.json of `folder`. Returns a text
/// for each that differs: `--learning_rate was 0.001, now it is 0.002`. Empty if the file cannot be read. Flags about the
/// data, the batches and their order are not compared here, because checkpoints record them.
std::vector<std::string> changed_flags(const TrainingArguments& arguments, const std::string& folder);
/// Prints a warning with these texts if a run that continues from `checkpoint` has other flags. Call it on one rank, before
/// training_args.json is replaced.
void warn_of_changed_flags(const TrainingArguments& arguments, const std::string& checkpoint);

}  // namespace tessera::trainer

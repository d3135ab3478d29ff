// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Checks that each rank finds the same content in the files that all ranks read: token files, tokenizers, the text of
/// --dataset_name, the configuration and the vocabulary in a model folder, and the names and a sample of the images.
/// Collective. The error names the flag with the size and hash on each rank. Texts (--train_file) and weights are compared
/// by others: check_files_on_all_ranks(), read_when_needed().
void check_same_inputs(const TrainingArguments& arguments);
/// A hash of the training data and of --train_sampling_strategy, without paths. 0 if no file has the data. Of large
/// files, samples.
std::int64_t content_of_inputs(const TrainingArguments& arguments);

}  // namespace tessera::trainer

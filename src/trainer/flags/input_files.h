// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/frontend/execution/runtime.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// The column of the text in JSON Lines and CSV files: --text_column_name, or else the default_text_column() of --train_file, or of
/// --validation_file if --train_file has no columns.
std::string text_column(const TrainingArguments& arguments);
/// Whether there is a text to train on: --train_file or --dataset_name. With --do_train false, there may be none.
bool has_training_text(const TrainingArguments& arguments);
/// Whether a path of --train_file or --validation_file names documents: a folder of texts, JSON Lines, or CSV.
bool names_documents(const std::string& path);
/// Checks that --train_file and --validation_file are a text, a token file or a folder on all ranks, because the ranks compare
/// each of them in another way. Collective.
void check_kinds_of_texts(const TrainingArguments& arguments);
/// --train_file and --validation_file, unless they are token files or folders: those are compared by check_same_inputs().
std::vector<RequiredFile> required_texts(const TrainingArguments& arguments);
/// Prints a warning for each folder of --train_file and --validation_file in which files are not read.
void warn_of_skipped_files(const TrainingArguments& arguments);

/// Checks that each rank finds the same content in the files that all ranks read: token files, folders of texts, tokenizers,
/// the text of --dataset_name, the configuration and the vocabulary in a model folder, and the names and a sample of the images.
/// Collective. The error names the flag with the size and hash on each rank. Other texts (--train_file) and weights are
/// compared by others: check_files_on_all_ranks(), read_when_needed().
void check_same_inputs(const TrainingArguments& arguments);
/// A hash of the training data and of --train_sampling_strategy, without paths. 0 if no file has the data. Of large
/// files, samples.
std::int64_t content_of_inputs(const TrainingArguments& arguments);

}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
// The tasks of run_mlm, run_classification and train_imagenet. `arguments` must outlive them.
#pragma once

#include <memory>
#include <string>

#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// Errors: those of the model folder, the vocabulary and the texts.
std::unique_ptr<Task> make_mlm_task(const TrainingArguments& arguments);
/// In a dry run, the labels are those of --train_file, else those of the configuration. Errors: those of the model
/// folder, the vocabulary and the tables.
std::unique_ptr<Task> make_classification_task(const TrainingArguments& arguments);
/// Error unless --model is the name of a built-in configuration or a path.
void check_image_model(const std::string& name);
/// In a dry run, the classes are the folders of --datadir, else --fake_data_classes. Errors: those of the model and of
/// the folders of images.
std::unique_ptr<Task> make_image_task(const TrainingArguments& arguments);

}  // namespace tessera::trainer

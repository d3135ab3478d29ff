// SPDX-License-Identifier: Apache-2.0
// The training programs other than run_clm. Each rank runs them; they return the exit status of the program.
#pragma once

#include <string>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// The default arguments of each program, for parse_training_arguments().
TrainingArguments mlm_defaults();
TrainingArguments classification_defaults();
TrainingArguments image_defaults();

/// The name of a training program, its description, its default arguments, and the function that each rank runs.
struct TrainingMain {
  std::string program;
  std::string about;
  TrainingArguments standard{};
  int (*run)(const TrainingArguments& arguments) = nullptr;
};
/// main() of such a program: reads the command line, reports usage errors once, and runs the ranks. Returns the exit
/// status.
int training_main(int argc, char** argv, const TrainingMain& main);

/// Trains a BERT to predict masked tokens of text, as Hugging Face's run_mlm.py.
int run_mlm(const TrainingArguments& arguments);
/// Trains a BERT to classify texts or pairs of texts in TSV files, as Hugging Face's run_glue.py.
int run_classification(const TrainingArguments& arguments);
/// Trains an image classifier on folders of images, as PyTorch/XLA's test_train_mp_imagenet.py.
int train_imagenet(const TrainingArguments& arguments);

}  // namespace tessera::trainer

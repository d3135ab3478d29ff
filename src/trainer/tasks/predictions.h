// SPDX-License-Identifier: Apache-2.0
// The file of --do_predict, in the form of Hugging Face's run_glue.py:
//
//   index	prediction
//   0	entailment
//   1	not_entailment
#pragma once

#include <string>
#include <vector>

#include "tasks/text_samples.h"

namespace tessera::trainer {

/// The file in --output_dir: predict_results.txt, with --task_name predict_results_TASK.txt.
std::string predictions_file(const TrainingArguments& arguments);
/// The content: a line for each sample, with the number of the sample from 0 and the name of the label whose id was
/// predicted. Of a regression, the score with three digits after the point.
std::string predictions_text(const std::vector<double>& predictions, const TextLabels& labels);

}  // namespace tessera::trainer

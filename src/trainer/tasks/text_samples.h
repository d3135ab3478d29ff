// SPDX-License-Identifier: Apache-2.0
// The labelled texts of run_classification: from the files of a GLUE task, or from any table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bert_parts.h"
#include "tessera/data/glue.h"

namespace tessera::trainer {

/// The labels of a classification.
struct TextLabels {
  std::vector<std::string> names;           // in the order of their ids
  bool is_regression = false;               // the label is a number, and there are no names
  std::string place = "the training file";  // that has them

  /// The scores that a model computes.
  [[nodiscard]] std::int64_t scores() const { return is_regression ? 1 : static_cast<std::int64_t>(names.size()); }
};

/// The task of --task_name; null without the flag.
const data::GlueTask* glue_task_of(const TrainingArguments& arguments);
/// Replaces an empty --train_file by that of --task_name, unless the run does not train, and then an empty --validation_file
/// too, if it exists. If it does not, --do_eval gets a note. With --do_predict, replaces an empty --test_file. These files are derived flags. Flags that
/// have no effect without --do_predict get notes. In a dry run, files are only searched in --data_dir. Errors:
/// those of find_glue_folder().
TrainingArguments with_glue_files(TrainingArguments arguments);

/// Reads a file in the layout of --task_name, or any table (TSV, CSV) with a column `label` and one or two columns of text.
/// Errors: those of read_table() and parse_glue(); no such columns; an empty label.
data::LabelledTexts read_texts(const TrainingArguments& arguments, const std::string& path);
/// The error about a file without samples, with the number of rows that lack fields; "" if there are samples.
std::string no_sample_text(const TrainingArguments& arguments, const data::LabelledTexts& texts);
/// Reads --train_file as read_texts() does. Error if it has no sample.
data::LabelledTexts read_training_texts(const TrainingArguments& arguments);
/// Reads --test_file, whose labels are not used. The columns of texts are those of the task, else those of `train`, else all
/// but label and numbers. Error if a row lacks fields, because predictions are numbered by row, or if there is no sample.
data::LabelledTexts read_test_texts(const TrainingArguments& arguments, const data::LabelledTexts& train);
/// The labels of --task_name, else those that `texts` has, in alphabetical order. Without texts those of the model.
/// Errors about labels of `texts`, with the line: negative numbers and fractions; names and numbers; more than 100
/// labels in less than twice as many rows. Error if there are less than two labels.
TextLabels text_labels(const TrainingArguments& arguments, const data::LabelledTexts& texts,
                       const std::vector<std::string>& of_model);
/// Tokens and label of each text: `input_ids`, `token_type_ids` and `labels`. Error, with the line, for a label that
/// is not one of `labels`.
std::vector<data::Arrays> labelled_samples(const data::LabelledTexts& texts, const BertVocabulary& vocabulary,
                                           const TextLabels& labels, std::int64_t length);
/// The same with labels that are ignored.
std::vector<data::Arrays> unlabelled_samples(const data::LabelledTexts& texts, const BertVocabulary& vocabulary,
                                             std::int64_t length);
/// The line for the user about rows that were skipped; "" if there are none.
std::string skipped_note(const data::LabelledTexts& texts);

}  // namespace tessera::trainer

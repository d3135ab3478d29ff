// SPDX-License-Identifier: Apache-2.0
// The tasks of GLUE (Wang et al., 2019) in the TSV files of its archives, such as glue_data/QNLI/train.tsv.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// A task of GLUE: the form of its files, its labels and its metrics.
struct GlueTask {
  std::string name;                    // as in Hugging Face's run_glue.py: cola, sst2, mrpc, qqp, stsb, mnli, …
  std::string folder;                  // of the archive: CoLA
  std::string validation_file;         // dev.tsv; the training file always is train.tsv
  std::string first, second;           // the columns of the texts; second is "" if there is one text
  std::string label;                   // the column of the label
  std::vector<std::string> labels;     // Hugging Face's names, in the order of their ids; none: the label is a number
  std::vector<std::string> metrics;    // Hugging Face's names
  std::vector<std::string> columns{};  // of files without a header; none: the first line is the header

  [[nodiscard]] bool is_regression() const { return labels.empty(); }
  /// The file of the archive without labels: test.tsv, or test_matched.tsv for MNLI.
  [[nodiscard]] std::string test_file() const { return "test" + validation_file.substr(3); }  // for dev
};

/// The names of the nine tasks.
std::vector<std::string> glue_task_names();
/// The task of a name. Also accepts upper case, `SST-2` and `STS-B`, and the prefix `glue_` of mmf's data sets. Error,
/// with the nearest name, if there is no such task.
const GlueTask& glue_task(std::string_view name);

/// One or two texts and their label.
struct LabelledText {
  std::string first, second, label;
  std::int64_t line = 0;  // in the file, from 1
};
/// The samples of a file.
struct LabelledTexts {
  std::string name;  // of the file
  std::vector<LabelledText> samples;
  std::int64_t skipped = 0;            // rows that lack fields, as some rows of QQP do
  std::vector<std::string> columns{};  // of the file
};
/// Parses the text of a file of the task. Labels may be the names or their numbers, and become the names. Errors begin
/// with `name`, and with the line if they are about a row: a missing column, a label that the task does not have, a
/// score that is not a number from 0 to 5. A file without a usable row gives no samples.
LabelledTexts parse_glue(const GlueTask& task, std::string_view text, std::string name);
/// Reads a file. Errors: those of parse_glue().
LabelledTexts read_glue(const GlueTask& task, const std::string& path);
/// The same for a test file, whose labels are not known: labels are "", even if the file has them. Test files have a
/// header, including that of CoLA, whose training file has none. A test file of CoLA without a header is read in the
/// layout of the training file.
LabelledTexts parse_glue_test(const GlueTask& task, std::string_view text, std::string name);
/// Reads a test file. Errors: those of parse_glue_test().
LabelledTexts read_glue_test(const GlueTask& task, const std::string& path);

/// Returns the folder of the task's files: `data_dir`, if it contains train.tsv, else the task's folder in it. Without
/// `data_dir`, searches `cache_dir` and the folder of TESSERA_DATA for the task's folder, and for glue_data and glue
/// with it. Error, with the folders that were searched, if there is none.
std::string find_glue_folder(const GlueTask& task, const std::string& data_dir, const std::string& cache_dir);

}  // namespace tessera::data

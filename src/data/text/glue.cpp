// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/glue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/data/tsv.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

const std::vector<GlueTask>& glue_tasks() {
  static const std::vector<std::string> kAccuracy = {"accuracy"};
  static const std::vector<std::string> kAccuracyAndF1 = {"accuracy", "f1"};
  static const std::vector<std::string> kEntailment = {"entailment", "not_entailment"};
  static const std::vector<GlueTask> kTasks = {
      {"cola",
       "CoLA",
       "dev.tsv",
       "sentence",
       "",
       "label",
       {"unacceptable", "acceptable"},
       {"matthews_correlation"},
       {"source", "label", "annotation", "sentence"}},
      {"sst2", "SST-2", "dev.tsv", "sentence", "", "label", {"negative", "positive"}, kAccuracy},
      {"mrpc",
       "MRPC",
       "dev.tsv",
       "#1 String",
       "#2 String",
       "Quality",
       {"not_equivalent", "equivalent"},
       kAccuracyAndF1},
      {"qqp",
       "QQP",
       "dev.tsv",
       "question1",
       "question2",
       "is_duplicate",
       {"not_duplicate", "duplicate"},
       kAccuracyAndF1},
      {"stsb", "STS-B", "dev.tsv", "sentence1", "sentence2", "score", {}, {"pearson", "spearmanr"}},
      {"mnli",
       "MNLI",
       "dev_matched.tsv",
       "sentence1",
       "sentence2",
       "gold_label",
       {"entailment", "neutral", "contradiction"},
       kAccuracy},
      {"qnli", "QNLI", "dev.tsv", "question", "sentence", "label", kEntailment, kAccuracy},
      {"rte", "RTE", "dev.tsv", "sentence1", "sentence2", "label", kEntailment, kAccuracy},
      {"wnli", "WNLI", "dev.tsv", "sentence1", "sentence2", "label", {"not_entailment", "entailment"}, kAccuracy}};
  return kTasks;
}

int column_of(const TsvTable& table, const std::string& name, const GlueTask& task) {
  const int found = table.find(name);
  require(found >= 0, "{}: there is no column {}, which files of the GLUE task {} have; the columns are {}", table.name,
          name, task.name, fmt::join(table.columns, ", "));
  return found;
}

constexpr double kGreatestScore = 5;  // of STS-B, the only regression

// The name of a label that is given by its name or its number.
std::string label_name(const GlueTask& task, const std::string& label, const std::string& name, std::int64_t line) {
  if (task.is_regression()) {
    double value = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
    const bool is_number = error == std::errc() && end == label.data() + label.size();
    require(is_number && value >= 0 && value <= kGreatestScore,
            "{}, line {}: {} must be a number from 0 to {}, got \"{}\"", name, line, task.label, kGreatestScore,
            printable(label));
    return label;
  }
  for (std::size_t i = 0; i < task.labels.size(); ++i)
    if (label == task.labels[i] || label == std::to_string(i)) return task.labels[i];
  const bool may_be_header = !task.columns.empty() && line == 1;
  fail("{}, line {}: the label \"{}\" is not one of {}, nor one of their numbers, which begin with 0{}", name, line,
       printable(label), fmt::join(task.labels, ", "),
       may_be_header ? fmt::format("; files of the GLUE task {} have no header line", task.name) : "");
}

// The texts of each row, without a label.
LabelledTexts texts_of_rows(const GlueTask& task, const TsvTable& table) {
  LabelledTexts out{.name = table.name, .samples = {}, .skipped = table.skipped, .columns = table.columns};
  const int first = column_of(table, task.first, task);
  const int second = task.second.empty() ? -1 : column_of(table, task.second, task);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    out.samples.push_back({at(row, first), second < 0 ? "" : at(row, second), "", table.lines[i]});
  }
  return out;
}

}  // namespace

std::vector<std::string> glue_task_names() {
  std::vector<std::string> out;
  for (const GlueTask& task : glue_tasks()) out.push_back(task.name);
  return out;
}

const GlueTask& glue_task(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (c != '-') plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (plain.starts_with("glue_")) plain.erase(0, 5);
  for (const GlueTask& task : glue_tasks())
    if (task.name == plain) return task;
  fail("there is no GLUE task \"{}\"{}", name, suggest_name(plain, glue_task_names()));
}

LabelledTexts parse_glue(const GlueTask& task, std::string_view text, std::string name) {
  const TsvTable table = parse_tsv(text, std::move(name), {.columns = task.columns, .skips_short_rows = true});
  LabelledTexts out = texts_of_rows(task, table);
  const int label = column_of(table, task.label, task);
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    out.samples[i].label = label_name(task, at(table.rows[i], label), table.name, table.lines[i]);
  return out;
}

LabelledTexts read_glue(const GlueTask& task, const std::string& path) {
  return parse_glue(task, read_file(path), path);
}

LabelledTexts parse_glue_test(const GlueTask& task, std::string_view text, std::string name) {
  TsvTable table = parse_tsv(text, name, {.skips_short_rows = true});
  if (table.find(task.first) < 0 && !task.columns.empty())
    table = parse_tsv(text, std::move(name), {.columns = task.columns, .skips_short_rows = true});
  return texts_of_rows(task, table);
}

LabelledTexts read_glue_test(const GlueTask& task, const std::string& path) {
  return parse_glue_test(task, read_file(path), path);
}

std::string find_glue_folder(const GlueTask& task, const std::string& data_dir, const std::string& cache_dir) {
  if (!data_dir.empty()) {
    const std::string in_it = (fs::path(data_dir) / task.folder).string();
    return !fs::exists(fs::path(data_dir) / "train.tsv") && fs::is_directory(in_it) ? in_it : data_dir;
  }
  std::vector<std::string> searched;
  for (const std::string& root : {cache_dir, options().text("TESSERA_DATA")})
    for (const char* parent : {"glue_data", "glue", ""}) {
      if (root.empty()) continue;
      std::string folder = (fs::path(root) / parent / task.folder).string();
      if (fs::is_directory(folder)) return folder;
      searched.push_back(folder);
    }
  fail("no folder {} with the TSV files of the GLUE task {}; searched {}; give the folder: --data_dir", task.folder,
       task.name,
       searched.empty() ? "nothing, as neither --cache_dir nor TESSERA_DATA is set"
                        : fmt::format("{}", fmt::join(searched, ", ")));
}

}  // namespace tessera::data

// SPDX-License-Identifier: Apache-2.0
#include "tasks/text_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/data/batches.h"
#include "tessera/data/tsv.h"

namespace tessera::trainer {
namespace {

namespace fs = std::filesystem;

// Which columns of a table are the texts and the label.
struct TextColumns {
  int first = -1;
  int second = -1;  // -1: there is one text
  int label = -1;   // -1: labels are not read
};

// The columns that neither are the label nor number the rows.
std::vector<int> columns_with_text(const std::vector<std::string>& columns) {
  const std::set<std::string> others = {"label", "index", "idx", "id", "qid1", "qid2", "guid"};
  std::vector<int> out;
  for (int i = 0; i < isize(columns); ++i)
    if (!others.contains(at(columns, i))) out.push_back(i);
  return out;
}

// The columns of the texts alone.
TextColumns text_columns_of(const data::TsvTable& table) {
  TextColumns out;
  const std::vector<int> texts = columns_with_text(table.columns);
  require(texts.size() == 1 || texts.size() == 2, "{}: needs one or two columns of text besides label, got {}: {}",
          table.name, texts.size(), fmt::join(table.columns, ", "));
  out.first = texts.front();
  if (texts.size() == 2) out.second = texts.back();
  return out;
}

TextColumns columns_of(const data::TsvTable& table) {
  const int label = table.find("label");
  require(label >= 0, "{}: there is no column label; the columns are {}", table.name, fmt::join(table.columns, ", "));
  TextColumns out = text_columns_of(table);
  out.label = label;
  return out;
}

// The columns of a file with these columns, by name.
TextColumns columns_as(const std::vector<std::string>& training_columns, const data::TsvTable& table) {
  TextColumns out;
  for (const int i : columns_with_text(training_columns)) {
    const std::string& name = at(training_columns, i);
    const int found = table.find(name);
    require(found >= 0, "{}: there is no column {}, which the training file has; the columns are {}", table.name, name,
            fmt::join(table.columns, ", "));
    (out.first < 0 ? out.first : out.second) = found;
  }
  return out;
}

data::LabelledTexts texts_of(const data::TsvTable& table, const TextColumns& columns) {
  data::LabelledTexts out{.name = table.name, .samples = {}, .columns = table.columns};
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    require(columns.label < 0 || !trim(at(row, columns.label)).empty(),
            "{}, line {}: the label is empty; give each row the name or the number of its class, or remove the row",
            table.name, table.lines[i]);
    out.samples.push_back({at(row, columns.first), columns.second < 0 ? "" : at(row, columns.second),
                           columns.label < 0 ? "" : at(row, columns.label), table.lines[i]});
  }
  return out;
}

// The tokens of a sample.
data::Arrays token_arrays(const data::LabelledText& sample, const BertVocabulary& vocabulary, std::int64_t length) {
  const auto text = vocabulary.encode(sample.first, sample.second, length);
  const std::int64_t size = isize(text.input_ids);
  return {{"input_ids", Literal::from<std::int32_t>({size}, text.input_ids)},
          {"token_type_ids", Literal::from<std::int32_t>({size}, text.token_type_ids)}};
}

// What the text of a label is, in a file without a --task_name.
enum class LabelKind : std::uint8_t { kName, kWhole, kNegative, kFraction };

LabelKind kind_of_label(const std::string& label) {
  double value = 0;
  const char* const limit = label.data() + label.size();
  const auto [end, error] = std::from_chars(label.data(), limit, value);
  if (error == std::errc::invalid_argument || end != limit) return LabelKind::kName;
  const bool has_sign = label.starts_with('-');
  if (label.find_first_not_of("0123456789", has_sign ? 1 : 0) != std::string::npos) return LabelKind::kFraction;
  return has_sign ? LabelKind::kNegative : LabelKind::kWhole;
}

// Labels are the names of all classes, or the numbers of all classes.
void check_kinds_of_labels(const data::LabelledTexts& texts) {
  const data::LabelledText& first = texts.samples.front();
  const bool has_names = kind_of_label(first.label) == LabelKind::kName;
  const auto what = [](bool is_name) { return is_name ? "a name" : "a number"; };
  for (const data::LabelledText& sample : texts.samples) {
    const LabelKind kind = kind_of_label(sample.label);
    const bool is_name = kind == LabelKind::kName;
    const auto place = [&] {
      return fmt::format("{}, line {}: the label \"{}\" is", texts.name, sample.line, printable(sample.label));
    };
    require(kind != LabelKind::kNegative,
            "{} negative; labels are names, or whole numbers from 0; remove rows without a class", place);
    require(kind != LabelKind::kFraction,
            "{} not a whole number; labels are names, or whole numbers from 0; only --task_name stsb trains on scores",
            place);
    require(
        is_name == has_names, "{} {}, but \"{}\" in line {} is {}; give names to all classes, or numbers to all", place,
        what(is_name), [&] { return printable(first.label); }, first.line, what(has_names));
  }
}

// Ids of rows are no labels.
void check_label_count(const data::LabelledTexts& texts, std::int64_t labels) {
  constexpr std::int64_t kFew = 100;
  const data::LabelledText& first = texts.samples.front();
  require(
      labels <= kFew || 2 * labels <= isize(texts.samples),
      "{}, line {}: the column label, which has \"{}\" here, has {} different values in {} rows; labels are classes "
      "with several rows each, and not numbers of rows",
      texts.name, first.line, [&] { return printable(first.label); }, labels, isize(texts.samples));
}

std::string label_list(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  const std::span<const std::string> shown(names.data(), std::min(kMost, names.size()));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kMost ? fmt::format(", … ({} labels)", names.size()) : "");
}

Literal label_value(const std::string& label, const TextLabels& labels, const std::string& place) {
  // A label of a regression has been checked when the file was read.
  if (labels.is_regression) return Literal::scalar<float>(std::strtof(label.c_str(), nullptr));
  const auto found = std::find(labels.names.begin(), labels.names.end(), label);
  require(found != labels.names.end(), "{}: the label \"{}\" is not one of {}: {}", place, printable(label),
          labels.place, [&] { return label_list(labels.names); });
  return Literal::scalar<std::int32_t>(static_cast<std::int32_t>(found - labels.names.begin()));
}

}  // namespace

const data::GlueTask* glue_task_of(const TrainingArguments& arguments) {
  return arguments.task_name.empty() ? nullptr : &data::glue_task(arguments.task_name);
}

TrainingArguments with_glue_files(TrainingArguments arguments) {
  if (!arguments.do_predict && !arguments.test_file.empty())
    arguments.notes.emplace_back("--test_file has no effect without --do_predict");
  if (!arguments.do_predict && arguments.max_predict_samples)
    arguments.notes.emplace_back("--max_predict_samples has no effect without --do_predict");
  const data::GlueTask* task = glue_task_of(arguments);
  if (task == nullptr || !arguments.train_file.empty() || (arguments.dry_run && arguments.data_dir.empty()))
    return arguments;
  const fs::path folder = data::find_glue_folder(*task, arguments.data_dir, arguments.cache_dir);
  if (arguments.do_train) arguments.train_file = (folder / "train.tsv").string();
  const std::string held_out = (folder / task->validation_file).string();
  if (arguments.do_train) arguments.derived_flags.emplace_back("train_file");
  if (arguments.validation_file.empty() && is_there(held_out)) {
    arguments.validation_file = held_out;
    arguments.derived_flags.emplace_back("validation_file");
  }
  if (arguments.do_predict && arguments.test_file.empty()) {
    arguments.test_file = (folder / task->test_file()).string();
    arguments.derived_flags.emplace_back("test_file");
  }
  if (arguments.validation_file.empty() && arguments.do_eval && !arguments.dry_run)
    arguments.notes.push_back(fmt::format("no {} in {}: no evaluation", task->validation_file, folder.string()));
  return arguments;
}

data::LabelledTexts read_texts(const TrainingArguments& arguments, const std::string& path) {
  const data::GlueTask* task = glue_task_of(arguments);
  if (task != nullptr) return data::read_glue(*task, path);
  const data::TsvTable table = data::read_table(path);
  return texts_of(table, columns_of(table));
}

data::LabelledTexts read_test_texts(const TrainingArguments& arguments, const data::LabelledTexts& train) {
  const data::GlueTask* task = glue_task_of(arguments);
  data::LabelledTexts out;
  if (task != nullptr) {
    out = data::read_glue_test(*task, arguments.test_file);
  } else {
    const data::TsvTable table = data::read_table(arguments.test_file);
    out = texts_of(table, train.columns.empty() ? text_columns_of(table) : columns_as(train.columns, table));
  }
  require(!out.samples.empty(), "{}", [&] { return no_sample_text(arguments, out); });
  require(out.skipped == 0,
          "{}: {} of {} rows lack some of the {} fields that the header has; no row may be skipped, because "
          "predictions are numbered by row",
          out.name, out.skipped, out.skipped + isize(out.samples), out.columns.size());
  return out;
}

std::string no_sample_text(const TrainingArguments& arguments, const data::LabelledTexts& texts) {
  if (!texts.samples.empty()) return "";
  if (texts.skipped == 0) return texts.name + ": contains no sample";
  const data::GlueTask* task = glue_task_of(arguments);
  const bool has_header = task == nullptr || task->columns.empty();
  return fmt::format("{}: contains no sample; {} {} some of the {} fields that the {} has: {}", texts.name,
                     texts.skipped, texts.skipped == 1 ? "row lacks" : "rows lack", texts.columns.size(),
                     has_header ? "header" : "GLUE task " + task->name, fmt::join(texts.columns, ", "));
}

data::LabelledTexts read_training_texts(const TrainingArguments& arguments) {
  data::LabelledTexts out = read_texts(arguments, arguments.train_file);
  require(!out.samples.empty(), "{}", [&] { return no_sample_text(arguments, out); });
  return out;
}

TextLabels text_labels(const TrainingArguments& arguments, const data::LabelledTexts& texts,
                       const std::vector<std::string>& of_model) {
  TextLabels out;
  if (const data::GlueTask* task = glue_task_of(arguments); task != nullptr) {
    out.is_regression = task->is_regression();
    out.names = task->labels;
  } else if (texts.name.empty()) {
    out.names = of_model;
    out.place = "the model";
  } else {
    check_kinds_of_labels(texts);
    std::set<std::string> names;
    for (const data::LabelledText& text : texts.samples) names.insert(text.label);
    out.names.assign(names.begin(), names.end());
    check_label_count(texts, isize(out.names));
  }
  require(out.is_regression || out.names.size() >= 2, "{}: needs {}at least two labels, got {}",
          texts.name.empty() ? arguments.config_file() : texts.name, texts.name.empty() ? "" : "samples of ",
          out.names.size());
  return out;
}

std::vector<data::Arrays> labelled_samples(const data::LabelledTexts& texts, const BertVocabulary& vocabulary,
                                           const TextLabels& labels, std::int64_t length) {
  std::vector<data::Arrays> out;
  for (const data::LabelledText& sample : texts.samples) {
    const Literal label = label_value(sample.label, labels, fmt::format("{}, line {}", texts.name, sample.line));
    data::Arrays arrays = token_arrays(sample, vocabulary, length);
    arrays.set("labels", label);
    out.push_back(std::move(arrays));
  }
  return out;
}

std::vector<data::Arrays> unlabelled_samples(const data::LabelledTexts& texts, const BertVocabulary& vocabulary,
                                             std::int64_t length) {
  std::vector<data::Arrays> out;
  for (const data::LabelledText& sample : texts.samples) {
    data::Arrays arrays = token_arrays(sample, vocabulary, length);
    arrays.set("labels", Literal::scalar<std::int32_t>(data::kIgnoredLabel));
    out.push_back(std::move(arrays));
  }
  return out;
}

std::string skipped_note(const data::LabelledTexts& texts) {
  if (texts.skipped == 0) return "";
  return fmt::format("{}: rows that lack fields are skipped: {} of {}", texts.name, texts.skipped,
                     texts.skipped + isize(texts.samples));
}

}  // namespace tessera::trainer

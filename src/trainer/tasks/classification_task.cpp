// SPDX-License-Identifier: Apache-2.0
// Training of a classifier of texts.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "bert_parts.h"
#include "flags/input_files.h"
#include "run/tokenizer_files.h"
#include "run_task.h"
#include "tasks/tasks.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/data/padding.h"
#include "tessera/data/tsv.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/programs.h"
#include "tessera/trainer/progress.h"

namespace tessera::trainer {
namespace {

// Which columns of a table are the texts and the label.
struct TextColumns {
  int first = -1;
  int second = -1;  // -1: there is one text
  int label = -1;
};

// The texts are the columns that neither are the label nor number the rows.
TextColumns columns_of(const data::TsvTable& table) {
  TextColumns out{.label = table.find("label")};
  require(out.label >= 0, "{}: there is no column label; the columns are {}", table.name,
          fmt::join(table.columns, ", "));
  std::vector<int> texts;
  const std::set<std::string> numbers = {"index", "idx", "id", "qid1", "qid2", "guid"};
  for (int i = 0; i < isize(table.columns); ++i)
    if (i != out.label && !numbers.contains(at(table.columns, i))) texts.push_back(i);
  require(texts.size() == 1 || texts.size() == 2, "{}: needs one or two columns of text besides label, got {}: {}",
          table.name, texts.size(), fmt::join(table.columns, ", "));
  out.first = texts.front();
  if (texts.size() == 2) out.second = texts.back();
  return out;
}

std::vector<std::string> labels_of(const data::TsvTable& table) {
  const int column = columns_of(table).label;
  std::set<std::string> names;
  for (const auto& row : table.rows) names.insert(at(row, column));
  return {names.begin(), names.end()};
}

// The labels of a plan without a training file.
std::vector<std::string> numbered_labels(std::int64_t count) {
  std::vector<std::string> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(fmt::format("LABEL_{}", i));
  return out;
}

std::vector<data::Arrays> classified_samples(const data::TsvTable& table, const BertVocabulary& vocabulary,
                                             const std::vector<std::string>& labels, std::int64_t length) {
  const TextColumns columns = columns_of(table);
  std::vector<data::Arrays> out;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    const auto label = std::find(labels.begin(), labels.end(), at(row, columns.label));
    require(label != labels.end(), "{}, sample {}: the label \"{}\" is not one of the training file: {}", table.name,
            i + 1, printable(at(row, columns.label)), fmt::join(labels, ", "));
    const auto text =
        vocabulary.encode(at(row, columns.first), columns.second < 0 ? "" : at(row, columns.second), length);
    const std::int64_t size = isize(text.input_ids);
    out.push_back({{"input_ids", Literal::from<std::int32_t>({size}, text.input_ids)},
                   {"token_type_ids", Literal::from<std::int32_t>({size}, text.token_type_ids)},
                   {"labels", Literal::from<std::int32_t>({}, {static_cast<std::int32_t>(label - labels.begin())})}});
  }
  return out;
}

// The configuration with these labels.
nn::BertConfig with_labels(const nn::BertConfig& given, const std::vector<std::string>& labels) {
  JsonObject json = JsonObject::parse(given.to_json("BertForSequenceClassification"));
  JsonObject names, ids;
  for (int i = 0; i < isize(labels); ++i) {
    names.set(std::to_string(i), at(labels, i));
    ids.set(at(labels, i), i);
  }
  json.set("id2label", names);
  json.set("label2id", ids);
  return nn::BertConfig::from_json(json.str());
}

struct ClassificationModel : TrainingSetup {
  std::unique_ptr<nn::BertForSequenceClassification> model;
};

// The classifier, and the pooler if the folder has none, keep their initial values.
void load_body(ClassificationModel& out, const std::string& folder) {
  const LoadStateResult result = load_pretrained(*out.model, folder, {.strict = false});
  require(
      result.unexpected_keys.empty(), "{}: {} has no place in {}", folder,
      [&] { return fmt::format("{}", fmt::join(result.unexpected_keys, ", ")); }, out.model->class_name());
  for (const std::string& name : result.missing_keys)
    require(name.starts_with("classifier.") || name.starts_with("bert.pooler."), "{}: {} is missing", folder, name);
  if (!result.missing_keys.empty())
    out.notes.push_back(fmt::format("initial values: {} are not in {}", fmt::join(result.missing_keys, ", "), folder));
}

ClassificationModel make_classification_model(const TrainingArguments& arguments, const std::string& folder,
                                              const std::vector<std::string>& labels) {
  ClassificationModel out;
  begin_setup(arguments, out);
  nn::BertConfig config = with_labels(bert_config(arguments, folder), labels);
  config.dtype = weight_dtype(arguments);
  out.model = std::make_unique<nn::BertForSequenceClassification>(config);
  out.network = out.model.get();
  if (!folder.empty()) load_body(out, folder);
  finish_setup(arguments, out);
  return out;
}

class ClassificationTask final : public Task {
 public:
  ClassificationTask(const TrainingArguments& arguments, const std::string& folder)
      : train_(arguments.train_file.empty() ? data::TsvTable{} : data::read_tsv(arguments.train_file)),
        labels_(arguments.train_file.empty() ? numbered_labels(bert_config(arguments, folder).num_labels)
                                             : labels_of(train_)),
        vocabulary_(BertVocabulary::of(arguments, folder)),
        model_((require(labels_.size() >= 2, "{}: needs samples of two labels or more, got {}",
                        train_.name.empty() ? arguments.config_file() : train_.name, labels_.size()),
                make_classification_model(arguments, folder, labels_))),
        length_(sequence_length(arguments, model_.model->config(), 128)) {
    constexpr std::int64_t kMultiple = 8;  // so that few different shapes are compiled
    collator_ = std::make_shared<data::PaddingCollator>(
        data::PaddingOptions{.padding = arguments.pad_to_max_length ? "max_length" : "longest",
                             .max_length = length_,
                             .pad_to_multiple_of = length_ % kMultiple == 0 ? kMultiple : 1,
                             .pad_token_id = vocabulary_.pad()});
    if (arguments.dry_run) return;
    check_vocabulary(vocabulary_, model_.model->config(), arguments);
    data::LoaderOptions options =
        train_loader_options(arguments, model_, arguments.micro_batch_rows(model_.data_shards));
    options.collator = collator_;
    loader_ = make_train_loader(
        arguments, std::make_shared<MemorySource>(classified_samples(train_, vocabulary_, labels_, length_)),
        std::move(options));
    if (arguments.validation_file.empty()) return;
    held_out_ = std::make_shared<MemorySource>(
        classified_samples(data::read_tsv(arguments.validation_file), vocabulary_, labels_, length_));
  }

  TrainingSetup& setup() override { return model_; }
  data::Loader& loader() override { return *loader_; }
  [[nodiscard]] std::string model_text() const override {
    return fmt::format("{}, {} labels", bert_text(model_.model->config()), labels_.size());
  }
  [[nodiscard]] std::string rows_text() const override { return fmt::format("texts of at most {} tokens", length_); }
  [[nodiscard]] std::string_view unit() const override { return "samples"; }
  [[nodiscard]] std::int64_t units_per_row() const override { return 1; }
  // The lengths of the texts differ.
  [[nodiscard]] std::optional<double> flops(double /*units*/) const override { return std::nullopt; }

  [[nodiscard]] data::Batch planned_batch(std::int64_t rows) const override {
    const Literal ids(Type::array(DType::kS32, {length_}));  // as classified_samples()
    const Literal label(Type::array(DType::kS32, {}));
    return abstract_batch(model_, batch_sharding(model_),
                          {{"input_ids", ids}, {"token_type_ids", ids}, {"labels", label}}, rows, collator_.get());
  }
  [[nodiscard]] std::optional<double> label_count(const data::Batch& batch) const override {
    return static_cast<double>(batch.real_rows);
  }
  Tensor record(const BatchTensors& batch, const Tensor& labels, std::int64_t /*micro_batches*/) override {
    const Tensor sum =
        cross_entropy_parts(model_.model->logits(bert_inputs_of(model_, batch)), input_of(model_, batch, "labels")).sum;
    const Tensor loss = sum / labels.to(sum.dtype());
    loss.backward();
    return loss.to(DType::kF64);
  }

  [[nodiscard]] std::int64_t held_out() const override { return held_out_ ? held_out_->size() : 0; }
  [[nodiscard]] std::unique_ptr<data::Loader> held_out_batches(std::int64_t samples, std::int64_t rows) override {
    return std::make_unique<data::Loader>(
        std::make_shared<FirstSamples>(held_out_, samples),
        data::LoaderOptions{
            .batch_size = rows, .collator = collator_, .mesh = model_.mesh, .input_sharding = batch_sharding(model_)});
  }
  LossParts record_evaluation(const BatchTensors& batch) override {
    return classified(model_.model->logits(bert_inputs_of(model_, batch)), input_of(model_, batch, "labels"));
  }
  void save_tokenizer(const std::string& folder) const override {
    if (!vocabulary_.place().empty()) write_tokenizer(vocabulary_.place(), nullptr, folder);
  }
  [[nodiscard]] Metrics metrics(const EvaluationSums& sums) const override { return classification_metrics(sums); }

 private:
  data::TsvTable train_;  // empty in a dry run without a file
  std::vector<std::string> labels_;
  BertVocabulary vocabulary_;
  ClassificationModel model_;
  std::int64_t length_;
  std::shared_ptr<const data::PaddingCollator> collator_;
  std::shared_ptr<const MemorySource> held_out_;
  std::unique_ptr<data::Loader> loader_;  // null in a dry run
};

}  // namespace

LossParts classified(const Tensor& logits, const Tensor& labels) {
  const CrossEntropyParts parts = cross_entropy_parts(logits, labels);
  return {parts.sum, parts.count, sum((argmax(logits, -1) == labels).to(DType::kF32))};
}

Metrics classification_metrics(const EvaluationSums& sums) {
  const double loss = sums.loss / sums.count;
  const double accuracy = sums.correct.value_or(0) / sums.count;
  return {loss,
          {{"accuracy", accuracy}},
          fmt::format("loss {:.4f}, accuracy {:.4f} over {} samples", loss, accuracy,
                      static_cast<std::int64_t>(sums.count))};
}

TrainingArguments classification_defaults() {
  TrainingArguments out;
  out.program = TrainingProgram::kClassification;
  return out;
}

std::unique_ptr<Task> make_classification_task(const TrainingArguments& arguments) {
  return std::make_unique<ClassificationTask>(arguments, model_folder(arguments));
}

int run_classification(const TrainingArguments& arguments) {
  check_same_on_all_ranks(arguments.values());
  (void)model_folder(arguments);  // an error before the output folder is created
  check_files_on_all_ranks({{arguments.train_file, "--train_file", ""},
                            {arguments.validation_file, "--validation_file", ""},
                            {arguments.fsdp_config_file(), "--fsdp_config", ""}});
  check_same_inputs(arguments);
  return run_task(arguments);
}

}  // namespace tessera::trainer

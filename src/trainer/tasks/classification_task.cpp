// SPDX-License-Identifier: Apache-2.0
// Training of a classifier of texts.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bert_parts.h"
#include "flags/input_files.h"
#include "run/tokenizer_files.h"
#include "run_task.h"
#include "tasks/glue_metrics.h"
#include "tasks/predictions.h"
#include "tasks/tasks.h"
#include "tasks/text_samples.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/data/padding.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/programs.h"
#include "tessera/trainer/progress.h"

namespace tessera::trainer {
namespace {

// The configuration with these labels.
nn::BertConfig with_labels(const nn::BertConfig& given, const TextLabels& labels, const data::GlueTask* task) {
  JsonObject json = JsonObject::parse(given.to_json("BertForSequenceClassification"));
  JsonObject names, ids;
  for (int i = 0; i < labels.scores(); ++i) {
    const std::string name = labels.is_regression ? "LABEL_0" : at(labels.names, i);
    names.set(std::to_string(i), name);
    ids.set(name, i);
  }
  json.set("id2label", names);
  json.set("label2id", ids);
  // A configuration of another task may name the problem of its own labels.
  const bool names_problem = !given.problem_type.empty();
  if (labels.is_regression || names_problem)
    json.set("problem_type", labels.is_regression ? "regression" : "single_label_classification");
  if (task != nullptr) json.set("finetuning_task", task->name);
  return nn::BertConfig::from_json(json.str());
}

// The names of the labels in a configuration, by id.
std::vector<std::string> labels_of(const nn::BertConfig& config) {
  const JsonObject json = JsonObject::parse(config.to_json());
  JsonObject names;
  if (!json.is_null("id2label")) json.read("id2label", names);
  std::vector<std::string> out;
  for (std::int64_t i = 0; i < config.num_labels; ++i) {
    out.push_back(fmt::format("LABEL_{}", i));
    names.read(std::to_string(i), out.back());
  }
  return out;
}

struct ClassificationModel : TrainingSetup {
  std::unique_ptr<nn::BertForSequenceClassification> model;
};

// The classifier, and the pooler if the folder has none, keep their initial values.
void load_body(const TrainingArguments& arguments, const std::string& folder, ClassificationModel& out) {
  const LoadStateResult result = load_weights(arguments, folder, out, {.strict = false});
  require(
      result.unexpected_keys.empty(), "{} contains {}, which {} does not have", folder,
      [&] { return fmt::format("{}", fmt::join(result.unexpected_keys, ", ")); }, out.model->class_name());
  for (const std::string& name : result.missing_keys)
    require(name.starts_with("classifier.") || name.starts_with("bert.pooler."), "{}: {} is missing", folder, name);
  if (!result.missing_keys.empty())
    out.notes.push_back(fmt::format("initial values: {} are not in {}", fmt::join(result.missing_keys, ", "), folder));
}

ClassificationModel make_classification_model(const TrainingArguments& arguments, const std::string& folder,
                                              const TextLabels& labels) {
  ClassificationModel out;
  begin_setup(arguments, out);
  nn::BertConfig config = with_labels(bert_config(arguments, folder), labels, glue_task_of(arguments));
  config.dtype = weight_dtype(arguments);
  out.model = std::make_unique<nn::BertForSequenceClassification>(config);
  out.network = out.model.get();
  if (!folder.empty()) load_body(arguments, folder, out);
  finish_setup(arguments, out);
  return out;
}

// The metrics that need the predictions of all samples; none: the accuracy, which is a sum.
std::vector<std::string> metrics_of_predictions(const TrainingArguments& arguments) {
  const data::GlueTask* task = glue_task_of(arguments);
  if (task == nullptr || task->metrics == std::vector<std::string>{"accuracy"}) return {};
  return task->metrics;
}

// The squared errors of logits [b, 1]. Rows that only fill a batch do not count: even their [CLS] has a mask of 0.
LossParts squared_errors(const Tensor& logits, const Tensor& labels, const Tensor& attention_mask) {
  const DType dtype = logits.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const Tensor scores = logits.reshape({logits.dim(0)}).to(dtype);
  const Tensor is_sample = attention_mask.select(1, 0).to(dtype);
  return {sum(square(scores - labels.to(dtype)) * is_sample), sum(is_sample), {}, scores};
}

class ClassificationTask final : public Task {
 public:
  ClassificationTask(const TrainingArguments& arguments, const std::string& folder)
      : arguments_(arguments),
        train_(arguments.train_file.empty() ? data::LabelledTexts{} : read_training_texts(arguments)),
        labels_(
            text_labels(arguments, train_,
                        train_.name.empty() ? labels_of(bert_config(arguments, folder)) : std::vector<std::string>())),
        metrics_(metrics_of_predictions(arguments)),
        vocabulary_(BertVocabulary::of(arguments, folder)),
        model_(make_classification_model(arguments, folder, labels_)),
        length_(sequence_length(arguments, model_.model->config(), 128)) {
    const std::vector<std::int64_t> buckets = buckets_up_to(arguments, length_);
    constexpr std::int64_t kMultiple = 8;  // so that few different shapes are compiled
    collator_ = std::make_shared<data::PaddingCollator>(
        data::PaddingOptions{.padding = arguments.pad_to_max_length ? "max_length" : "longest",
                             .max_length = length_,
                             .pad_to_multiple_of = buckets.empty() && length_ % kMultiple == 0 ? kMultiple : 1,
                             .length_buckets = buckets,
                             .pad_token_id = vocabulary_.pad()});
    if (const std::string note = skipped_note(train_); !note.empty()) model_.notes.push_back(note);
    if (arguments.dry_run) return;
    check_vocabulary(vocabulary_, model_.model->config(), arguments);
    data::LoaderOptions options =
        train_loader_options(arguments, model_, arguments.micro_batch_rows(model_.data_shards));
    options.collator = collator_;
    if (!arguments.validation_file.empty()) read_held_out();
    if (arguments.do_predict)
      test_ =
          std::make_shared<MemorySource>(unlabelled_samples(read_test_texts(arguments, train_), vocabulary_, length_));
    loader_ = make_train_loader(arguments, training_samples(), std::move(options));
  }

  TrainingSetup& setup() override { return model_; }
  data::Loader& loader() override { return *loader_; }
  [[nodiscard]] std::string model_text() const override {
    const std::string labels = labels_.is_regression ? "regression" : fmt::format("{} labels", labels_.names.size());
    return fmt::format("{}, {}", bert_text(model_.model->config()), labels);
  }
  [[nodiscard]] std::string rows_text() const override { return fmt::format("texts of at most {} tokens", length_); }
  [[nodiscard]] std::string_view unit() const override { return "samples"; }
  [[nodiscard]] std::int64_t units_per_row() const override { return 1; }
  // The lengths of the texts differ.
  [[nodiscard]] std::optional<double> flops(double /*units*/) const override { return std::nullopt; }

  [[nodiscard]] data::Batch planned_batch(std::int64_t rows) const override {
    const Literal ids(Type::array(DType::kS32, {length_}));  // as labelled_samples()
    const Literal label(Type::array(labels_.is_regression ? DType::kF32 : DType::kS32, {}));
    return abstract_batch(model_, batch_sharding(model_),
                          {{"input_ids", ids}, {"token_type_ids", ids}, {"labels", label}}, rows, collator_.get());
  }
  [[nodiscard]] std::optional<double> label_count(const data::Batch& batch) const override {
    return static_cast<double>(batch.real_rows);
  }
  Tensor record(const BatchTensors& batch, const Tensor& labels, std::int64_t /*micro_batches*/) override {
    const Tensor logits = model_.model->logits(bert_inputs_of(model_, batch));
    const Tensor sum = labels_.is_regression
                           ? errors_of(logits, batch).sum
                           : cross_entropy_parts(logits, input_of(model_, batch, "labels"), data::kIgnoredLabel,
                                                 arguments_.label_smoothing_factor)
                                 .sum;
    const Tensor loss = sum / labels.to(sum.dtype());
    record_gradients(model_, loss);
    return loss.to(DType::kF64);
  }

  [[nodiscard]] std::int64_t held_out() const override { return held_out_ ? held_out_->size() : 0; }
  [[nodiscard]] std::unique_ptr<data::Loader> held_out_batches(std::int64_t samples, std::int64_t rows) override {
    return batches_of(held_out_, samples, rows);
  }
  LossParts record_evaluation(const BatchTensors& batch) override {
    const Tensor logits = model_.model->logits(bert_inputs_of(model_, batch));
    if (labels_.is_regression) return errors_of(logits, batch);
    LossParts out = classified(logits, input_of(model_, batch, "labels"), arguments_.label_smoothing_factor);
    if (!metrics_.empty()) out.predictions = argmax(logits, -1);
    return out;
  }
  void save_tokenizer(const std::string& folder) const override {
    if (!vocabulary_.place().empty()) write_tokenizer(vocabulary_.place(), nullptr, folder);
  }
  [[nodiscard]] std::string_view final_work() const override { return "test"; }
  std::string finish(const OnProgress& on_progress) override {
    if (!test_) return "";
    const std::int64_t samples = std::min(arguments_.max_predict_samples.value_or(test_->size()), test_->size());
    const auto batches = batches_of(test_, samples, arguments_.eval_batch_rows(model_.data_shards));
    const auto predictions = predict(
        *model_.model, *batches, samples, [&](const BatchTensors& batch) { return record_prediction(batch); },
        on_progress);
    if (!predictions) return "";
    const std::string path = predictions_file(arguments_);
    if (RankContext::current().rank() == 0) write_file(path, predictions_text(*predictions, labels_));
    return fmt::format("predictions: {} samples, in {}", predictions->size(), path);
  }
  [[nodiscard]] Metrics metrics(const EvaluationSums& sums) const override {
    if (metrics_.empty()) return classification_metrics(sums);
    std::vector<double> labels;
    for (std::int64_t i = 0; i < isize(sums.predictions); ++i)
      labels.push_back(element_as_double(held_out_->get(i).at("labels"), 0));
    Metrics out{sums.loss / sums.count, glue_metrics(metrics_, sums.predictions, labels), ""};
    out.text = fmt::format("loss {:.4f}", out.loss);
    for (const auto& [name, value] : out.others) out.text += fmt::format(", {} {:.4f}", name, value);
    out.text += fmt::format(" over {} samples", labels.size());
    return out;
  }

 private:
  // A run that does not train needs a loader too, but takes no batch.
  [[nodiscard]] std::shared_ptr<const MemorySource> training_samples() const {
    if (!train_.name.empty())
      return std::make_shared<MemorySource>(labelled_samples(train_, vocabulary_, labels_, length_));
    const auto& other = held_out_ ? held_out_ : test_;
    require(other != nullptr,
            "--do_train false: there is nothing to do, because there are no samples to evaluate or to predict");
    return other;
  }
  [[nodiscard]] std::unique_ptr<data::Loader> batches_of(std::shared_ptr<const MemorySource> source,
                                                         std::int64_t samples, std::int64_t rows) const {
    return std::make_unique<data::Loader>(
        std::make_shared<FirstSamples>(std::move(source), samples),
        data::LoaderOptions{
            .batch_size = rows, .collator = collator_, .mesh = model_.mesh, .input_sharding = batch_sharding(model_)});
  }
  // The ids of the likeliest labels, or the scores of a regression.
  Tensor record_prediction(const BatchTensors& batch) {
    const Tensor logits = model_.model->logits(bert_inputs_of(model_, batch));
    return labels_.is_regression ? logits.reshape({logits.dim(0)}) : argmax(logits, -1);
  }
  // A file that was found, and not given, may be without samples.
  void read_held_out() {
    const data::LabelledTexts texts = read_texts(arguments_, arguments_.validation_file);
    if (const std::string reason = no_sample_text(arguments_, texts); !reason.empty()) {
      const auto& derived = arguments_.derived_flags;
      require(std::find(derived.begin(), derived.end(), "validation_file") != derived.end(), "{}", reason);
      model_.notes.push_back(reason + ": no evaluation");
      return;
    }
    if (const std::string note = skipped_note(texts); !note.empty()) model_.notes.push_back(note);
    held_out_ = std::make_shared<MemorySource>(labelled_samples(texts, vocabulary_, labels_, length_));
  }
  [[nodiscard]] LossParts errors_of(const Tensor& logits, const BatchTensors& batch) const {
    return squared_errors(logits, input_of(model_, batch, "labels"), input_of(model_, batch, "attention_mask"));
  }

  const TrainingArguments& arguments_;
  data::LabelledTexts train_;  // empty without a file: in a dry run, or with --do_train false
  TextLabels labels_;
  std::vector<std::string> metrics_;
  BertVocabulary vocabulary_;
  ClassificationModel model_;
  std::int64_t length_;
  std::shared_ptr<const data::PaddingCollator> collator_;
  std::shared_ptr<const MemorySource> held_out_;
  std::shared_ptr<const MemorySource> test_;  // null without --do_predict
  std::unique_ptr<data::Loader> loader_;      // null in a dry run
};

}  // namespace

LossParts classified(const Tensor& logits, const Tensor& labels, double label_smoothing) {
  const CrossEntropyParts parts = cross_entropy_parts(logits, labels, data::kIgnoredLabel, label_smoothing);
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

int run_classification(const TrainingArguments& given) {
  check_same_on_all_ranks(given.values());
  const TrainingArguments arguments = with_glue_files(given);
  (void)model_folder(arguments);  // an error before the output folder is created
  const char* const found_by = given.data_dir.empty() ? "--task_name" : "--data_dir";
  const bool predicts = arguments.do_predict && !arguments.dry_run;
  check_files_on_all_ranks({{arguments.train_file, given.train_file.empty() ? found_by : "--train_file", ""},
                            {arguments.validation_file, "--validation_file", ""},
                            {predicts ? arguments.test_file : "", given.test_file.empty() ? found_by : "--test_file",
                             "--do_predict needs the texts whose labels are predicted"},
                            {arguments.fsdp_config_file(), "--fsdp_config", ""}});
  check_same_inputs(arguments);
  return run_task(arguments);
}

}  // namespace tessera::trainer

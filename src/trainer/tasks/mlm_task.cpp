// SPDX-License-Identifier: Apache-2.0
// Training of a masked language model.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "bert_parts.h"
#include "flags/input_files.h"
#include "run/tokenizer_files.h"
#include "run_task.h"
#include "tasks/tasks.h"
#include "tasks/token_lists.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/data/padding.h"
#include "tessera/data/text_dataset.h"
#include "tessera/data/text_files.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/programs.h"
#include "tessera/trainer/progress.h"

namespace tessera::trainer {
namespace {

// The lines of a text, or documents.
using MlmLines = std::vector<std::string>;

MlmLines read_mlm_lines(const TrainingArguments& arguments, const std::string& path) {
  if (names_documents(path)) return data::read_all_documents(data::find_texts({path}), text_column(arguments));
  return split(data::read_text_file(path), '\n');
}

// To train on, and to evaluate.
std::pair<MlmLines, MlmLines> read_training_lines(const TrainingArguments& arguments) {
  if (!arguments.do_train && !has_training_text(arguments)) return {};
  if (!arguments.dataset_name.empty()) {
    const data::RawText raw = data::read_wikitext(
        data::find_dataset_folder(arguments.dataset_name, arguments.dataset_config_name, arguments.cache_dir));
    return {split(raw.train, '\n'), split(raw.validation, '\n')};
  }
  const double part = arguments.validation_file.empty() ? arguments.validation_split_percentage : 0;
  if (names_documents(arguments.train_file)) {
    MlmLines train = read_mlm_lines(arguments, arguments.train_file);
    const auto count = static_cast<std::ptrdiff_t>(std::floor(part / 100 * static_cast<double>(train.size())));
    MlmLines validation(train.end() - count, train.end());
    train.erase(train.end() - count, train.end());
    return {std::move(train), std::move(validation)};
  }
  const std::string text = data::read_text_file(arguments.train_file);
  const auto [train, validation] = data::split_text(text, part);
  return {split(train, '\n'), split(validation, '\n')};
}

std::pair<MlmLines, MlmLines> read_mlm_texts(const TrainingArguments& arguments) {
  auto out = read_training_lines(arguments);
  if (!arguments.validation_file.empty()) out.second = read_mlm_lines(arguments, arguments.validation_file);
  return out;
}

data::Arrays sample_of(const std::vector<std::int32_t>& ids) {
  const std::int64_t size = isize(ids);
  return {{"input_ids", Literal::from<std::int32_t>({size}, ids)}};
}

// The tokens of each line that is not blank: with --line_by_line between [CLS] and [SEP], at most `length`.
TokenLists tokens_of_lines(const MlmLines& lines, const BertVocabulary& vocabulary, std::int64_t length,
                           bool line_by_line) {
  TokenLists out;
  for (const std::string& line : lines)
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      out.push_back(line_by_line ? vocabulary.encode(line, "", length).input_ids
                                 : vocabulary.encode(std::string_view(line)));
  return out;
}

// Bytes need no cache.
TokenLists cached_lines(const TrainingArguments& arguments, const MlmLines& lines, const BertVocabulary& vocabulary,
                        std::int64_t length) {
  const bool line_by_line = arguments.line_by_line;
  const auto make = [&] { return tokens_of_lines(lines, vocabulary, length, line_by_line); };
  if (vocabulary.place().empty()) return make();
  std::size_t key = hash_mix(vocabulary.hash(), static_cast<std::size_t>(line_by_line ? length : 0));
  for (const std::string& line : lines) key = hash_mix(key, hash_text(line));
  return cached_token_lists(arguments, key, make);
}

// Each line is a sample; or the lines, each between [CLS] and [SEP], form blocks of `length` tokens.
std::vector<data::Arrays> samples_of(const TrainingArguments& arguments, const MlmLines& lines,
                                     const BertVocabulary& vocabulary, std::int64_t length) {
  std::vector<data::Arrays> out;
  std::vector<std::int32_t> block;
  for (const std::vector<std::int32_t>& line : cached_lines(arguments, lines, vocabulary, length)) {
    if (arguments.line_by_line) {
      out.push_back(sample_of(line));
      continue;
    }
    block.push_back(vocabulary.cls());
    block.insert(block.end(), line.begin(), line.end());
    block.push_back(vocabulary.sep());
    std::size_t taken = 0;
    const auto size = static_cast<std::size_t>(length);
    for (; block.size() - taken >= size; taken += size)
      out.push_back(sample_of({block.begin() + static_cast<std::ptrdiff_t>(taken),
                               block.begin() + static_cast<std::ptrdiff_t>(taken + size)}));
    block.erase(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  return out;
}

struct MlmModel : TrainingSetup {
  std::unique_ptr<nn::BertForMaskedLM> model;
};

MlmModel make_mlm_model(const TrainingArguments& arguments, const std::string& folder) {
  MlmModel out;
  begin_setup(arguments, out);
  nn::BertConfig config = bert_config(arguments, folder);
  config.dtype = weight_dtype(arguments);
  out.model = std::make_unique<nn::BertForMaskedLM>(config);
  out.network = out.model.get();
  if (!folder.empty()) load_weights(arguments, folder, out);
  finish_setup(arguments, out);
  return out;
}

class MlmTask final : public Task {
 public:
  MlmTask(const TrainingArguments& arguments, const std::string& folder)
      : vocabulary_(BertVocabulary::of(arguments, folder)),
        model_(make_mlm_model(arguments, folder)),
        length_(sequence_length(arguments, model_.model->config(), 1024)),
        seed_(static_cast<std::uint64_t>(arguments.seed)),
        label_smoothing_(arguments.label_smoothing_factor) {
    const bool pads = arguments.line_by_line && !arguments.pad_to_max_length;
    collator_ = std::make_shared<data::MlmCollator>(
        data::PaddingOptions{.padding = pads ? "longest" : "max_length",
                             .max_length = length_,
                             .length_buckets = buckets_up_to(arguments, length_),
                             .pad_token_id = vocabulary_.pad(),
                             .truncation = true},
        data::MlmOptions{.mlm_probability = arguments.mlm_probability,
                         .mask_token_id = vocabulary_.mask(),
                         .vocab_size = vocabulary_.size(),
                         .special_ids = {vocabulary_.cls(), vocabulary_.sep(), vocabulary_.pad()}});
    if (arguments.dry_run) return;
    check_vocabulary(vocabulary_, model_.model->config(), arguments);
    data::LoaderOptions options =
        train_loader_options(arguments, model_, arguments.micro_batch_rows(model_.data_shards));
    options.collator = collator_;
    loader_ = make_train_loader(arguments, load_samples(arguments), std::move(options));
  }

  TrainingSetup& setup() override { return model_; }
  data::Loader& loader() override { return *loader_; }
  [[nodiscard]] std::string model_text() const override { return bert_text(model_.model->config()); }
  [[nodiscard]] std::string rows_text() const override { return fmt::format("sequences of {} tokens", length_); }
  [[nodiscard]] std::string_view unit() const override { return "tokens"; }
  [[nodiscard]] std::int64_t units_per_row() const override { return length_; }
  [[nodiscard]] std::optional<double> flops(double units) const override {
    return training_flops(units, static_cast<double>(model_.model->parameter_count()));
  }
  [[nodiscard]] std::optional<double> flops_of_attention(double units) const override {
    const nn::BertConfig& config = model_.model->config();
    return attention_flops(units, static_cast<double>(config.num_hidden_layers),
                           static_cast<double>(config.hidden_size), static_cast<double>(length_));
  }

  [[nodiscard]] data::Batch planned_batch(std::int64_t rows) const override {
    const data::Arrays sample = sample_of(std::vector<std::int32_t>(static_cast<std::size_t>(length_)));
    return abstract_batch(model_, batch_sharding(model_), sample, rows, collator_.get());
  }
  // Every rank knows only which tokens of its own rows are masked.
  [[nodiscard]] std::optional<double> label_count(const data::Batch& /*batch*/) const override { return std::nullopt; }
  Tensor record(const BatchTensors& batch, const Tensor& /*labels*/, std::int64_t micro_batches) override {
    const CrossEntropyParts parts = parts_of(batch);
    const Tensor mean = parts.sum / maximum(parts.count.to(parts.sum.dtype()), 1.0);
    const Tensor loss = mean * (1 / static_cast<double>(micro_batches));
    record_gradients(model_, loss);
    return loss.to(DType::kF64);
  }
  std::optional<LossParts> record_sum(const BatchTensors& batch) override {
    const CrossEntropyParts parts = parts_of(batch);
    record_gradients(model_, parts.sum);
    return LossParts{parts.sum, parts.count};
  }

  [[nodiscard]] std::int64_t held_out() const override { return held_out_->size(); }
  [[nodiscard]] std::unique_ptr<data::Loader> held_out_batches(std::int64_t samples, std::int64_t rows) override {
    return std::make_unique<data::Loader>(std::make_shared<FirstSamples>(held_out_, samples),
                                          data::LoaderOptions{.batch_size = rows,
                                                              .seed = seed_,
                                                              .collator = collator_,
                                                              .mesh = model_.mesh,
                                                              .input_sharding = batch_sharding(model_)});
  }
  LossParts record_evaluation(const BatchTensors& batch) override {
    const CrossEntropyParts parts = parts_of(batch);
    return {parts.sum, parts.count};
  }
  void save_tokenizer(const std::string& folder) const override {
    if (!vocabulary_.place().empty()) write_tokenizer(vocabulary_.place(), nullptr, folder);
  }
  [[nodiscard]] Metrics metrics(const EvaluationSums& sums) const override {
    const double loss = sums.loss / sums.count;  // NaN if no token was masked
    const double perplexity = std::exp(loss);
    return {loss,
            {{"perplexity", perplexity}},
            fmt::format("loss {:.4f} nats, perplexity {:.3f} over {} masked tokens", loss, perplexity,
                        static_cast<std::int64_t>(sums.count))};
  }

 private:
  // Returns the samples to train on. A run that does not train needs a loader too, but takes no batch.
  std::shared_ptr<const MemorySource> load_samples(const TrainingArguments& arguments) {
    const auto [train, validation] = read_mlm_texts(arguments);
    const std::shared_ptr<const MemorySource> samples =
        std::make_shared<MemorySource>(samples_of(arguments, train, vocabulary_, length_));
    held_out_ = std::make_shared<MemorySource>(samples_of(arguments, validation, vocabulary_, length_));
    const auto& out = samples->size() > 0 || arguments.do_train ? samples : held_out_;
    require(out->size() > 0, "{} gives no sample of {} tokens; give a longer text or a smaller --max_seq_length",
            !arguments.train_file.empty()     ? arguments.train_file
            : !arguments.dataset_name.empty() ? arguments.dataset_name
                                              : arguments.validation_file,
            length_);
    return out;
  }
  CrossEntropyParts parts_of(const BatchTensors& batch) {
    return model_.model->loss_parts(bert_inputs_of(model_, batch), input_of(model_, batch, "labels"), label_smoothing_);
  }

  BertVocabulary vocabulary_;
  MlmModel model_;
  std::int64_t length_;
  std::uint64_t seed_;
  double label_smoothing_;
  std::shared_ptr<const data::MlmCollator> collator_;
  std::shared_ptr<const MemorySource> held_out_;  // null in a dry run
  std::unique_ptr<data::Loader> loader_;          // null in a dry run
};

}  // namespace

TrainingArguments mlm_defaults() {
  TrainingArguments out;
  out.program = TrainingProgram::kMlm;
  return out;
}

std::unique_ptr<Task> make_mlm_task(const TrainingArguments& arguments) {
  return std::make_unique<MlmTask>(arguments, model_folder(arguments));
}

int run_mlm(const TrainingArguments& arguments) {
  check_same_on_all_ranks(arguments.values());
  (void)model_folder(arguments);  // an error before the output folder is created
  std::vector<RequiredFile> files = {{arguments.fsdp_config_file(), "--fsdp_config", ""}};
  if (!arguments.dry_run) {
    check_kinds_of_texts(arguments);
    for (RequiredFile& text : required_texts(arguments)) files.push_back(std::move(text));
  }
  check_files_on_all_ranks(files);
  check_same_inputs(arguments);
  if (!arguments.dry_run) warn_of_skipped_files(arguments);
  return run_task(arguments);
}

}  // namespace tessera::trainer

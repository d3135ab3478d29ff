// SPDX-License-Identifier: Apache-2.0
// Training of a causal language model.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>

#include "clm/auto_shard.h"
#include "clm/fake_tokens.h"
#include "flags/config_overrides.h"
#include "flags/input_files.h"
#include "run/tokenizer_files.h"
#include "run_task.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/clm.h"
#include "tessera/trainer/progress.h"

namespace tessera::trainer {
namespace {

class ClmTask final : public Task {
 public:
  explicit ClmTask(const TrainingArguments& arguments) : arguments_(arguments), model_(make_clm_model(arguments)) {
    if (arguments.dry_run) return;
    load_samples();
    // A run that does not train needs a loader too, but takes no batch.
    loader_ =
        make_train_loader(arguments, train_ ? train_ : held_out_,
                          train_loader_options(arguments, model_, arguments.micro_batch_rows(model_.data_shards)));
  }

  TrainingSetup& setup() override { return model_; }
  data::Loader& loader() override { return *loader_; }
  [[nodiscard]] std::string model_text() const override { return clm_model_text(model_); }
  [[nodiscard]] std::string rows_text() const override { return clm_rows_text(model_); }
  [[nodiscard]] std::string_view unit() const override { return "tokens"; }
  [[nodiscard]] std::int64_t units_per_row() const override { return model_.block_size; }
  [[nodiscard]] std::optional<double> flops(double units) const override {
    return training_flops(units, static_cast<double>(model_.model->parameter_count()));
  }
  [[nodiscard]] std::optional<double> flops_of_attention(double units) const override {
    const nn::CausalShape shape = model_.model->shape();
    return attention_flops(units, static_cast<double>(shape.layers), static_cast<double>(shape.heads * shape.head_size),
                           static_cast<double>(model_.block_size));
  }

  [[nodiscard]] data::Batch planned_batch(std::int64_t rows) const override {
    const Literal block(Type::array(DType::kS32, {model_.block_size}));  // as BlockSource
    return abstract_batch(model_, batch_sharding(model_), {{"input_ids", block}, {"labels", block}}, rows);
  }
  [[nodiscard]] std::optional<double> label_count(const data::Batch& batch) const override {
    return static_cast<double>(batch.real_rows * (model_.block_size - 1));
  }
  Tensor record(const BatchTensors& batch, const Tensor& labels, std::int64_t /*micro_batches*/) override {
    Tensor tokens = batch.tensor("input_ids");
    Tensor targets = batch.tensor("labels");
    tokens.set_name("tokens");
    targets.set_name("labels");
    return record_micro_batch(model_, tokens, targets, labels);
  }

  [[nodiscard]] std::int64_t held_out() const override { return held_out_ ? held_out_->size() : 0; }
  [[nodiscard]] std::unique_ptr<data::Loader> held_out_batches(std::int64_t samples, std::int64_t rows) override {
    return std::make_unique<data::Loader>(
        std::make_shared<FirstSamples>(held_out_, samples),
        data::LoaderOptions{.batch_size = rows, .mesh = model_.mesh, .input_sharding = batch_sharding(model_)});
  }
  LossParts record_evaluation(const BatchTensors& batch) override {
    const CrossEntropyParts parts =
        model_.model->loss_parts(batch.tensor("input_ids"), batch.tensor("labels"), {}, model_.label_smoothing);
    return {parts.sum, parts.count};
  }
  [[nodiscard]] Metrics metrics(const EvaluationSums& sums) const override {
    const double loss = sums.loss / sums.count;
    const double perplexity = std::exp(loss);
    Metrics out{
        loss, {{"perplexity", perplexity}}, fmt::format("loss {:.4f} nats, perplexity {:.3f}", loss, perplexity)};
    if (!arguments_.fake_data) {
      const double bits = loss / std::numbers::ln2 * data_.validation_tokens_per_byte;
      out.others.emplace_back("bits_per_byte", bits);
      out.text += fmt::format(", {:.3f} bits per byte", bits);
    }
    out.text += fmt::format(" over {} tokens", static_cast<std::int64_t>(sums.count));
    return out;
  }

  void save_tokenizer(const std::string& folder) const override {
    if (data_.tokenizer) write_tokenizer(arguments_.tokenizer_name, data_.tokenizer.get(), folder);
  }

  std::string finish(const OnProgress& on_progress) override {
    if (arguments_.sample_tokens == 0 || !data_.tokenizer) return "";
    return "sample:\n" +
           printable(sample_text(model_, *data_.tokenizer, arguments_.sample_prompt, arguments_.sample_tokens,
                                 static_cast<std::uint64_t>(arguments_.seed), on_progress));
  }

 private:
  void load_samples() {
    if (arguments_.fake_data) {
      train_ =
          std::make_shared<FakeTokens>(arguments_.fake_data_samples, model_.block_size,
                                       model_.model->shape().vocabulary, static_cast<std::uint64_t>(arguments_.seed));
      held_out_ = std::make_shared<FirstSamples>(train_, 256);  // as of fake images
      return;
    }
    data_ = load_clm_data(arguments_, model_.block_size);
    if (data_.train) train_ = std::make_shared<data::BlockSource>(*data_.train);
    if (data_.validation) held_out_ = std::make_shared<data::BlockSource>(*data_.validation);
    check_vocabulary();
  }

  void check_vocabulary() const {
    const int vocabulary = data_.tokenizer->vocab_size();
    const std::int64_t model_vocabulary = model_.model->shape().vocabulary;
    check_vocabulary_size(arguments_, data_.tokenizer->name(), vocabulary, model_vocabulary);
    const bool may_be_another = !arguments_.tokenizer_is_given && data_.tokenizer->name() == "bytes" &&
                                model_vocabulary > 2 * std::int64_t{vocabulary};
    if (may_be_another && !arguments_.model_name_or_path.empty() && RankContext::current().rank() == 0)
      log_warning(
          "{} has no tokenizer, so the text is read as bytes, although the model has {} ids; give its tokenizer with "
          "--tokenizer_name",
          arguments_.model_name_or_path, model_vocabulary);
  }

  const TrainingArguments& arguments_;
  ClmModel model_;
  ClmData data_;                                  // empty in a dry run, and with --fake_data
  std::shared_ptr<const data::Source> train_;     // null in a dry run, and without a text to train on
  std::shared_ptr<const data::Source> held_out_;  // null if there are none
  std::unique_ptr<data::Loader> loader_;          // null in a dry run
};

// Returns the files that every rank reads.
RequiredFile configuration_of(const TrainingArguments& arguments) {
  if (!arguments.config_name.empty())
    return {arguments.config_file(), "--config_name", "it must be a config.json, or a folder that contains one"};
  return {
      arguments.config_file(), "--model_name_or_path",
      "it must be a folder, or the name of a model in --cache_dir or $HF_HOME/hub, because run_clm downloads nothing"};
}

std::vector<RequiredFile> files_of(const TrainingArguments& arguments) {
  std::vector<RequiredFile> out = {configuration_of(arguments), {arguments.fsdp_config_file(), "--fsdp_config", ""}};
  if (arguments.dry_run || arguments.fake_data) return out;
  for (RequiredFile& text : required_texts(arguments)) out.push_back(std::move(text));
  const std::string& tokenizer = arguments.tokenizer_name;
  if (tokenizer != "bytes" && !tokenizer.starts_with("bpe:") && !std::filesystem::is_directory(tokenizer))
    out.push_back({tokenizer, "--tokenizer_name", "it must be bytes, bpe:N or the file of a vocabulary"});
  return out;
}

}  // namespace

std::unique_ptr<Task> make_clm_task(const TrainingArguments& arguments) { return std::make_unique<ClmTask>(arguments); }

int run_clm(const TrainingArguments& arguments) {
  check_same_on_all_ranks(arguments.values());
  check_kinds_of_texts(arguments);
  check_files_on_all_ranks(files_of(arguments));
  check_same_inputs(arguments);
  if (!arguments.dry_run) warn_of_skipped_files(arguments);
  return run_task(arguments.auto_shard.empty() ? arguments : with_best_layout(arguments));
}

}  // namespace tessera::trainer

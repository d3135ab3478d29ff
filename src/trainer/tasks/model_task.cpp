// SPDX-License-Identifier: Apache-2.0
#include "model_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::trainer {
namespace {

class ModelTask final : public Task {
 public:
  ModelTask(const TrainingArguments& arguments, TrainerOptions options) : options_(std::move(options)) {
    begin_setup(arguments, setup_);
    setup_.network = &options_.model;
    finish_setup(arguments, setup_);
    data::LoaderOptions loading =
        train_loader_options(arguments, setup_, arguments.micro_batch_rows(setup_.data_shards));
    loading.collator = options_.data_collator;
    const auto& samples = options_.train_dataset ? options_.train_dataset : options_.eval_dataset;
    require(samples != nullptr && samples->size() > 0, "Trainer: {} has no samples; give train_dataset or eval_dataset",
            options_.train_dataset ? "train_dataset" : "the data set");
    loader_ = make_train_loader(arguments, samples, std::move(loading));
  }

  TrainingSetup& setup() override { return setup_; }
  data::Loader& loader() override { return *loader_; }
  [[nodiscard]] std::string model_text() const override { return std::string(options_.model.class_name()); }
  [[nodiscard]] std::string rows_text() const override { return "samples"; }
  [[nodiscard]] std::string_view unit() const override { return options_.unit; }
  [[nodiscard]] std::int64_t units_per_row() const override { return 1; }
  [[nodiscard]] std::optional<double> flops(double /*units*/) const override { return std::nullopt; }
  [[nodiscard]] data::Batch planned_batch(std::int64_t rows) const override {
    const data::Source& samples = options_.train_dataset ? *options_.train_dataset : *options_.eval_dataset;
    return abstract_batch(setup_, batch_sharding(setup_), samples.get(0), rows, options_.data_collator.get());
  }
  // Only the loss function knows which labels count.
  [[nodiscard]] std::optional<double> label_count(const data::Batch& /*batch*/) const override { return std::nullopt; }

  Tensor record(const BatchTensors& batch, const Tensor& /*labels*/, std::int64_t micro_batches) override {
    const LossParts parts = parts_of(batch);
    const Tensor mean = parts.count.is_null() ? parts.sum : parts.sum / maximum(parts.count.to(parts.sum.dtype()), 1.0);
    const Tensor loss = mean * (1 / static_cast<double>(micro_batches));
    record_gradients(setup_, loss);
    return loss.to(DType::kF64);
  }
  std::optional<LossParts> record_sum(const BatchTensors& batch) override {
    if (!options_.compute_loss) return std::nullopt;
    const LossParts parts = parts_of(batch);
    record_gradients(setup_, parts.sum);
    return parts;
  }

  [[nodiscard]] std::int64_t held_out() const override {
    return options_.eval_dataset ? options_.eval_dataset->size() : 0;
  }
  [[nodiscard]] std::unique_ptr<data::Loader> held_out_batches(std::int64_t samples, std::int64_t rows) override {
    return std::make_unique<data::Loader>(std::make_shared<FirstSamples>(options_.eval_dataset, samples),
                                          data::LoaderOptions{.batch_size = rows,
                                                              .collator = options_.data_collator,
                                                              .mesh = setup_.mesh,
                                                              .input_sharding = batch_sharding(setup_)});
  }
  LossParts record_evaluation(const BatchTensors& batch) override { return parts_of(batch); }
  [[nodiscard]] Metrics metrics(const EvaluationSums& sums) const override {
    Metrics out{sums.loss / std::max(sums.count, 1.0), {}, ""};
    if (sums.correct) out.others.emplace_back("accuracy", *sums.correct / std::max(sums.count, 1.0));
    if (options_.compute_metrics)
      for (auto& metric : options_.compute_metrics(sums)) out.others.push_back(std::move(metric));
    out.text = fmt::format("loss {:.4f}", out.loss);
    for (const auto& [name, value] : out.others) out.text += fmt::format(", {} {:.4f}", name, value);
    return out;
  }

 private:
  LossParts parts_of(const BatchTensors& batch) {
    if (options_.compute_loss) return options_.compute_loss(options_.model, batch);
    nn::ModelInputs inputs;
    for (const std::string& name : batch.names()) inputs.emplace(name, input_of(setup_, batch, name));
    const Tensor loss = options_.model.run(inputs).loss;
    require(!loss.is_null(), "{} computes no loss from a batch of {}; give labels, or compute_loss",
            options_.model.class_name(), fmt::join(batch.names(), ", "));
    return {loss, {}};
  }

  TrainerOptions options_;
  TrainingSetup setup_;
  std::unique_ptr<data::Loader> loader_;
};

}  // namespace

std::unique_ptr<Task> make_model_task(const TrainingArguments& arguments, TrainerOptions options) {
  return std::make_unique<ModelTask>(arguments, std::move(options));
}

}  // namespace tessera::trainer

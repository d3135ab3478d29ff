// SPDX-License-Identifier: Apache-2.0
// The parts of a training run that do not depend on the task: the update and the evaluation.
#include <array>
#include <utility>

#include "kept_random_state.h"
#include "reproducible_norm.h"
#include "tessera/base/error.h"
#include "tessera/frontend/execution/step.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

void record_gradients(const TrainingSetup& setup, const Tensor& loss) {
  (setup.scaler ? setup.scaler->scale(loss) : loss).backward();
}

Tensor record_update(const TrainingArguments& arguments, TrainingSetup& setup) {
  if (setup.scaler) setup.scaler->unscale(*setup.optimizer);
  const auto parameters = setup.network->parameters();
  const bool clips = arguments.max_grad_norm > 0;
  Tensor norm;
  if (arguments.full_determinism)
    norm = clips ? clip_reproducibly(parameters, arguments.max_grad_norm) : reproducible_norm(parameters);
  else
    norm = clips ? optim::clip_grad_norm(parameters, arguments.max_grad_norm) : optim::global_norm(parameters);
  if (setup.scaler) {
    setup.scaler->step(*setup.optimizer);
    setup.scaler->update();
  } else {
    setup.optimizer->step();
  }
  setup.optimizer->zero_grad();
  return norm;
}

LossSum LossSum::zero(bool leaves_out) {
  return {Tensor::scalar(DType::kF64, 0), leaves_out ? Tensor::scalar(DType::kF64, 0) : Tensor()};
}

LossSum LossSum::plus(const Tensor& loss) const {
  if (count.is_null()) return {sum + loss, {}};
  const Tensor is_finite = isfinite(loss);
  return {sum + where(is_finite, loss, 0.0), count + is_finite.to(DType::kF64)};
}

// A loss that may be left out is added only when it is complete.
MicroBatchLosses::MicroBatchLosses(Task& task, Tensor labels, std::int64_t micro_batches, LossSum before)
    : task_(task), labels_(std::move(labels)), micro_batches_(micro_batches) {
  if (before.count.is_null()) {
    sum_ = std::move(before.sum);
  } else {
    before_ = std::move(before);
    sum_ = Tensor::scalar(DType::kF64, 0);
  }
}

void MicroBatchLosses::record(const BatchTensors& batch) {
  const auto parts = labels_.is_null() && micro_batches_ > 1 ? task_.record_sum(batch) : std::nullopt;
  if (!parts) {
    sum_ = sum_ + task_.record(batch, labels_, micro_batches_);
    return;
  }
  const Tensor loss = parts->sum.to(DType::kF64);
  const Tensor count = parts->count.to(DType::kF64);
  losses_ = losses_.is_null() ? loss : losses_ + loss;
  count_ = count_.is_null() ? count : count_ + count;
}

LossSum MicroBatchLosses::finish() {
  Tensor sum = std::exchange(sum_, {});  // what this object keeps would be a result of the step
  if (!count_.is_null()) sum = sum + mean_of_sums();
  return before_.sum.is_null() ? LossSum{sum, {}} : before_.plus(sum);
}

// The mean of the losses that record_sum() recorded. The gradients become those of the mean.
Tensor MicroBatchLosses::mean_of_sums() {
  const Tensor scale = 1.0 / maximum(std::exchange(count_, {}), 1.0);
  for (const Tensor& parameter : task_.setup().network->parameters()) {
    Tensor gradient = parameter.grad();
    if (!gradient.is_null()) gradient.assign(stored_tensor(gradient) * scale.to(gradient.dtype()));
  }
  return std::exchange(losses_, {}) * scale;
}

namespace {

// The predictions of the batches, each with the number of its rows that are samples.
std::vector<double> read_predictions(const std::vector<std::pair<Tensor, std::int64_t>>& batches) {
  constexpr std::size_t kBatchesOfRead = 64;  // one program reads several batches
  std::vector<double> out;
  for (std::size_t begin = 0; begin < batches.size(); begin += kBatchesOfRead) {
    const std::size_t end = std::min(batches.size(), begin + kBatchesOfRead);
    std::vector<Tensor> tensors;
    for (std::size_t i = begin; i < end; ++i) tensors.push_back(batches[i].first);
    const std::vector<Literal> values = read_all(tensors);
    for (std::size_t i = begin; i < end; ++i) {
      const auto rows = values[i - begin].data<double>().first(static_cast<std::size_t>(batches[i].second));
      out.insert(out.end(), rows.begin(), rows.end());
    }
  }
  return out;
}

}  // namespace

std::optional<Metrics> evaluate(Task& task, std::int64_t rows, std::int64_t samples, const OnProgress& on_progress) {
  const std::int64_t size = std::min(samples, task.held_out());
  nn::PretrainedModel& model = *task.setup().network;
  const KeptRandomState kept;
  model.eval();
  // The losses are added up on the device, so that no batch waits until its loss is read.
  Tensor sum = Tensor::scalar(DType::kF64, 0);
  Tensor count = Tensor::scalar(DType::kF64, 0);
  Tensor correct;
  std::vector<std::pair<Tensor, std::int64_t>> predictions;
  bool is_complete = true;
  std::int64_t done = 0;
  const auto loader = task.held_out_batches(size, rows);
  for (const data::Batch& batch : *loader) {
    const LossParts parts = task.record_evaluation(BatchTensors(batch));
    const bool is_mean = parts.count.is_null();
    const Tensor rows_of_batch = Tensor::scalar(DType::kF64, static_cast<double>(batch.real_rows));
    const Tensor loss = parts.sum.to(DType::kF64);
    sum = sum + (is_mean ? loss * rows_of_batch : loss);
    count = count + (is_mean ? rows_of_batch : parts.count.to(DType::kF64));
    if (!parts.correct.is_null()) {
      const Tensor more = parts.correct.to(DType::kF64);
      correct = correct.is_null() ? more : correct + more;
    }
    if (!parts.predictions.is_null()) predictions.emplace_back(parts.predictions.to(DType::kF64), batch.real_rows);
    mark_step();
    done += batch.real_rows;
    is_complete = !on_progress || on_progress(done, size);
    if (!is_complete) break;
  }
  model.train();
  if (!is_complete) return std::nullopt;
  EvaluationSums sums{.loss = sum.item(), .count = count.item()};
  if (!correct.is_null()) sums.correct = correct.item();
  sums.predictions = read_predictions(predictions);
  return task.metrics(sums);
}

std::optional<std::vector<double>> predict(nn::PretrainedModel& model, data::Loader& batches, std::int64_t samples,
                                           const std::function<Tensor(const BatchTensors&)>& record,
                                           const OnProgress& on_progress) {
  std::vector<std::pair<Tensor, std::int64_t>> predictions;
  std::int64_t done = 0;
  bool is_complete = true;
  const KeptRandomState kept;
  model.eval();
  run_evaluation([&] {
    for (const data::Batch& batch : batches) {
      predictions.emplace_back(record(BatchTensors(batch)).to(DType::kF64), batch.real_rows);
      mark_step();
      done += batch.real_rows;
      is_complete = !on_progress || on_progress(done, samples);
      if (!is_complete) break;
    }
  });
  model.train();
  if (!is_complete) return std::nullopt;
  return read_predictions(predictions);
}

std::optional<double> Metrics::find(std::string_view name) const {
  if (name.starts_with("eval_")) name.remove_prefix(5);
  if (name.empty() || name == "loss") return loss;
  for (const auto& [known, value] : others)
    if (known == name) return value;
  return std::nullopt;
}

bool wants_greater(const TrainingArguments& arguments) {
  if (arguments.greater_is_better_is_given) return arguments.greater_is_better;
  return arguments.greater_is_better || greater_is_better(arguments.metric_for_best_model);
}

double chosen_metric(const TrainingArguments& arguments, const Metrics& metrics) {
  const std::string& name = arguments.metric_for_best_model;
  const std::optional<double> metric = metrics.find(name);
  require(metric.has_value(), "--metric_for_best_model {}: the metrics of the evaluation are loss{}", name, [&] {
    std::string known;
    for (const auto& [other, value] : metrics.others) known += ", " + other;
    return known;
  });
  return *metric;
}

bool greater_is_better(std::string_view metric) {
  constexpr std::array<std::string_view, 6> kGreater = {"accuracy", "f1",        "matthews_correlation",
                                                        "pearson",  "spearmanr", "combined_score"};
  return std::any_of(kGreater.begin(), kGreater.end(), [&](std::string_view name) { return metric.ends_with(name); });
}

}  // namespace tessera::trainer

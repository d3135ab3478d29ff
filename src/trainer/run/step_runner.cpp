// SPDX-License-Identifier: Apache-2.0
#include "run/step_runner.h"

#include <utility>

#include "tessera/base/text.h"
#include "tessera/frontend/execution/eager_mode.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::trainer {

StepRunner::StepRunner(const TrainingArguments& arguments, Task& task)
    : arguments_(arguments),
      task_(task),
      leaves_out_(task.setup().scaler != nullptr),
      update_([this](const std::vector<Tensor>& given) { return record(given); }) {
  restart_loss_sum();
}

void StepRunner::restart_loss_sum() { losses_ = LossSum::zero(leaves_out_); }

StartedUpdate StepRunner::run(const std::vector<data::Batch>& batches) {
  // The last update of an epoch may have one micro-batch of several.
  const bool is_compiled = arguments_.gradient_accumulation_steps == 1 && !experimental::is_eager_mode();
  StartedUpdate out = is_compiled ? run_compiled(batches.front()) : run_traced(batches);
  losses_ = out.losses;
  return out;
}

// Null if only the device knows how many labels the batches have.
Tensor StepRunner::label_count(const std::vector<data::Batch>& batches) const {
  double count = 0;
  for (const data::Batch& batch : batches) {
    const std::optional<double> more = task_.label_count(batch);
    if (!more) return {};
    count += *more;
  }
  return Tensor::scalar(DType::kF64, count);
}

// `given`: the arrays of the batch, the number of its labels if it is known, and the losses before.
std::vector<Tensor> StepRunner::record(const std::vector<Tensor>& given) {
  const LossSum before = leaves_out_ ? LossSum{given[given.size() - 2], given.back()} : LossSum{given.back(), Tensor()};
  const std::size_t inputs = given.size() - (leaves_out_ ? 2 : 1);
  const Tensor labels = has_labels_ ? given[inputs - 1] : Tensor();
  const Tensor loss = task_.record(batch_.with(given), labels, 1);
  const Tensor norm = record_update(arguments_, task_.setup());
  const LossSum after = before.plus(loss);
  return leaves_out_ ? std::vector<Tensor>{after.sum, norm, after.count} : std::vector<Tensor>{after.sum, norm};
}

StartedUpdate StepRunner::run_compiled(const data::Batch& batch) {
  batch_ = BatchTensors(batch);
  std::vector<Tensor> arguments = batch_.tensors();
  const Tensor labels = label_count({batch});
  has_labels_ = !labels.is_null();
  if (has_labels_) arguments.push_back(labels);
  arguments.push_back(losses_.sum);
  if (leaves_out_) arguments.push_back(losses_.count);
  const std::vector<Tensor> results = update_(arguments);
  return {{results[0], leaves_out_ ? results[2] : Tensor()}, results[1]};
}

StartedUpdate StepRunner::run_traced(const std::vector<data::Batch>& batches) {
  const Tensor labels = label_count(batches);
  const std::int64_t rows = batches.front().rows;
  MicroBatchLosses losses(task_, labels, isize(batches), losses_);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const MicroBatch part(static_cast<std::int64_t>(i) * rows);
    losses.record(BatchTensors(batches[i]));
    if (i + 1 < batches.size()) mark_step();
  }
  LossSum after = losses.finish();
  const Tensor norm = record_update(arguments_, task_.setup());
  mark_step();
  return {std::move(after), norm};
}

}  // namespace tessera::trainer

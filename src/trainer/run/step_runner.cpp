// SPDX-License-Identifier: Apache-2.0
#include "run/step_runner.h"

#include "tessera/base/text.h"
#include "tessera/frontend/execution/eager_mode.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::trainer {

StepRunner::StepRunner(const TrainingArguments& arguments, Task& task)
    : arguments_(arguments), task_(task), update_([this](const std::vector<Tensor>& given) {
        const Tensor labels = has_labels_ ? given[given.size() - 2] : Tensor();
        const Tensor loss = task_.record(batch_.with(given), labels, 1);
        const Tensor norm = record_update(arguments_, task_.setup());
        return std::vector<Tensor>{given.back() + loss, norm};
      }) {
  restart_loss_sum();
}

void StepRunner::restart_loss_sum() { loss_sum_ = Tensor::scalar(DType::kF64, 0); }

StartedUpdate StepRunner::run(const std::vector<data::Batch>& batches) {
  // The last update of an epoch may have one micro-batch of several.
  const bool is_compiled = arguments_.gradient_accumulation_steps == 1 && !experimental::is_eager_mode();
  StartedUpdate out = is_compiled ? run_compiled(batches.front()) : run_traced(batches);
  loss_sum_ = out.loss_sum;
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

StartedUpdate StepRunner::run_compiled(const data::Batch& batch) {
  batch_ = BatchTensors(batch);
  std::vector<Tensor> arguments = batch_.tensors();
  const Tensor labels = label_count({batch});
  has_labels_ = !labels.is_null();
  if (has_labels_) arguments.push_back(labels);
  arguments.push_back(loss_sum_);
  const std::vector<Tensor> results = update_(arguments);
  return {results[0], results[1]};
}

StartedUpdate StepRunner::run_traced(const std::vector<data::Batch>& batches) {
  const Tensor labels = label_count(batches);
  const std::int64_t rows = batches.front().rows;
  MicroBatchLosses losses(task_, labels, isize(batches), loss_sum_);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const MicroBatch part(static_cast<std::int64_t>(i) * rows);
    losses.record(BatchTensors(batches[i]));
    if (i + 1 < batches.size()) mark_step();
  }
  const Tensor sum = losses.finish();
  const Tensor norm = record_update(arguments_, task_.setup());
  mark_step();
  return {sum, norm};
}

}  // namespace tessera::trainer

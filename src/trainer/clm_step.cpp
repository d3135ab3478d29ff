// SPDX-License-Identifier: Apache-2.0
// Traces a training step, to be executed or planned.
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {

void record_micro_batch(ClmModel& setup, const Tensor& tokens, const Tensor& labels, double label_count,
                        Tensor& loss_sum) {
  const nn::CausalLossParts parts = setup.model->loss_parts(place_rows(setup, tokens), place_rows(setup, labels));
  const Tensor all_labels = Tensor::scalar(parts.sum.dtype(), label_count);
  Tensor loss = parts.sum / all_labels;
  // Each micro-batch has an auxiliary loss. They count as much as the labels of the micro-batch.
  if (!parts.auxiliary.is_null()) loss = loss + parts.auxiliary.to(loss.dtype()) * (parts.count / all_labels);
  loss.backward();
  loss_sum = loss_sum + loss.to(DType::kF64);
}

Tensor record_update(const TrainingArguments& arguments, ClmModel& setup) {
  const auto parameters = setup.model->parameters();
  Tensor norm = arguments.max_grad_norm > 0 ? optim::clip_grad_norm(parameters, arguments.max_grad_norm)
                                            : optim::global_norm(parameters);
  setup.optimizer->step();
  setup.optimizer->zero_grad();
  return norm;
}

}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
// Traces a training step, to be executed or planned.
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {

void record_micro_batch(ClmModel& setup, const Tensor& tokens, const Tensor& labels, double label_count,
                        Tensor& loss_sum) {
  const Tensor sum = setup.model->loss_parts(place_rows(setup, tokens), place_rows(setup, labels)).sum;
  const Tensor loss = sum / Tensor::scalar(sum.dtype(), label_count);
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

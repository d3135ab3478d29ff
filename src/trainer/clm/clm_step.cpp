// SPDX-License-Identifier: Apache-2.0
// Traces a training step, to be executed or planned.
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {

Tensor record_micro_batch(ClmModel& setup, const Tensor& tokens, const Tensor& labels, const Tensor& label_count) {
  const nn::CausalLossParts parts =
      setup.model->loss_parts(place_rows(setup, tokens), place_rows(setup, labels), {}, setup.label_smoothing);
  const Tensor all_labels = label_count.to(parts.sum.dtype());
  Tensor loss = parts.sum / all_labels;
  // Each micro-batch has an auxiliary loss. They count as much as the labels of the micro-batch.
  if (!parts.auxiliary.is_null()) loss = loss + parts.auxiliary.to(loss.dtype()) * (parts.count / all_labels);
  record_gradients(setup, loss);
  return loss.to(DType::kF64);
}

}  // namespace tessera::trainer

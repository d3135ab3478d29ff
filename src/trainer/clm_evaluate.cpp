// SPDX-License-Identifier: Apache-2.0
// The loss on held-out text.
#include <algorithm>
#include <memory>
#include <numbers>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {

std::optional<Evaluation> evaluate_clm(ClmModel& setup, const ClmData& data, std::int64_t rows, std::int64_t samples,
                                       const OnProgress& on_progress) {
  const std::int64_t size = std::min(samples, data.validation->size());
  setup.model->eval();
  // The losses are added up on the device, so that no batch waits until its loss is read.
  Tensor sum = Tensor::scalar(DType::kF64, 0);
  Tensor count = Tensor::scalar(DType::kF64, 0);
  bool is_complete = true;
  std::int64_t done = 0;
  data::Loader loader(std::make_shared<data::BlockSource>(*data.validation, size),
                      {.batch_size = rows, .mesh = setup.mesh, .input_sharding = batch_sharding(setup)});
  for (const data::Batch& batch : loader) {
    const CrossEntropyParts parts = setup.model->loss_parts(batch.tensor("input_ids"), batch.tensor("labels"));
    sum = sum + parts.sum.to(DType::kF64);
    count = count + parts.count.to(DType::kF64);
    mark_step();
    done += batch.real_rows;
    is_complete = !on_progress || on_progress(done, size);
    if (!is_complete) break;
  }
  setup.model->train();
  if (!is_complete) return std::nullopt;
  Evaluation out;
  out.tokens = static_cast<std::int64_t>(count.item());
  out.loss = sum.item() / count.item();
  out.bits_per_byte = out.loss / std::numbers::ln2 * data.validation_tokens_per_byte;
  return out;
}

}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
// The loss on held-out text.
#include <algorithm>
#include <numbers>
#include <numeric>

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
  for (std::int64_t first = 0; first < size && is_complete; first += rows) {
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(std::min(rows, size - first)));
    std::iota(blocks.begin(), blocks.end(), first);
    const data::TokenBatch batch = data::make_batch(*data.validation, blocks, rows);
    const Tensor tokens = place_rows(setup, Tensor::from<std::int32_t>({rows, batch.columns}, batch.tokens));
    const Tensor labels = place_rows(setup, Tensor::from<std::int32_t>({rows, batch.columns}, batch.labels));
    const CrossEntropyParts parts = setup.model->loss_parts(tokens, labels);
    sum = sum + parts.sum.to(DType::kF64);
    count = count + parts.count.to(DType::kF64);
    mark_step();
    is_complete = !on_progress || on_progress(std::min(first + rows, size), size);
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

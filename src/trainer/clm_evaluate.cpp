// SPDX-License-Identifier: Apache-2.0
// Held-out loss, and text that the model writes.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {

Evaluation evaluate_clm(ClmModel& setup, const ClmData& data, std::int64_t rows, std::int64_t samples,
                        const OnProgress& on_progress) {
  const std::int64_t size = std::min(samples, data.validation->size());
  setup.model->eval();
  double sum = 0;
  double count = 0;
  for (std::int64_t first = 0; first < size; first += rows) {
    if (on_progress) on_progress(first, size);
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(std::min(rows, size - first)));
    std::iota(blocks.begin(), blocks.end(), first);
    const data::TokenBatch batch = data::make_batch(*data.validation, blocks, rows);
    const Tensor tokens = place_rows(setup, Tensor::from<std::int32_t>({rows, batch.columns}, batch.tokens));
    const Tensor labels = place_rows(setup, Tensor::from<std::int32_t>({rows, batch.columns}, batch.labels));
    const CrossEntropyParts parts = setup.model->loss_parts(tokens, labels);
    mark_step();
    sum += parts.sum.item();
    count += parts.count.item();
  }
  setup.model->train();
  Evaluation out;
  out.tokens = static_cast<std::int64_t>(count);
  out.loss = sum / count;
  out.bits_per_byte = out.loss / std::numbers::ln2 * data.validation_tokens_per_byte;
  return out;
}

namespace {

// A draw in [0, 1) that is the same on every machine.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  double next() { return static_cast<double>(hash_mix(seed_, ++count_) >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

std::int32_t draw_token(const Literal& logits, std::int64_t known, Draws& draws) {
  constexpr double kTemperature = 0.8;
  constexpr std::int64_t kLikeliest = 40;
  std::vector<std::int32_t> order(static_cast<std::size_t>(known));
  std::iota(order.begin(), order.end(), 0);
  const auto kept = std::min<std::int64_t>(kLikeliest, known);
  const auto more = [&](std::int32_t a, std::int32_t b) {
    const double x = element_as_double(logits, a);
    const double y = element_as_double(logits, b);
    return x != y ? x > y : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), more);
  std::vector<double> weights;
  double total = 0;
  for (std::int64_t i = 0; i < kept; ++i) {
    const double above = element_as_double(logits, at(order, i)) - element_as_double(logits, order.front());
    weights.push_back(std::exp(above / kTemperature));
    total += weights.back();
  }
  double left = draws.next() * total;
  for (std::int64_t i = 0; i < kept; ++i) {
    left -= at(weights, i);
    if (left < 0) return at(order, i);
  }
  return order.front();
}

// Logits behind the last token of a window of fixed size: one shape, one program.
Literal next_logits(ClmModel& setup, const std::vector<std::int32_t>& text) {
  const auto width = static_cast<std::size_t>(setup.block_size);
  const std::size_t used = std::min(text.size(), width);
  std::vector<std::int32_t> window(width, 0);
  std::copy(text.end() - static_cast<std::ptrdiff_t>(used), text.end(), window.begin());
  const Tensor tokens = Tensor::from<std::int32_t>({1, setup.block_size}, window);
  const Tensor place = Tensor::from<std::int32_t>({1}, {static_cast<std::int32_t>(used) - 1});
  const Tensor all = setup.model->logits(tokens).select(0, 0);  // [t, v]
  const Tensor last = embedding(all, place).select(0, 0).to(all.dtype() == DType::kF64 ? DType::kF64 : DType::kF32);
  mark_step();
  return last.to_host();
}

}  // namespace

std::string sample_text(ClmModel& setup, const data::Tokenizer& tokenizer, const std::string& prompt,
                        std::int64_t tokens, std::uint64_t seed, const OnProgress& on_progress) {
  setup.model->eval();
  std::vector<std::int32_t> text = tokenizer.encode(prompt);
  if (text.empty()) text.push_back(tokenizer.end_of_text().value_or(tokenizer.encode("\n").front()));
  Draws draws(seed);
  const std::int64_t known = std::min<std::int64_t>(tokenizer.vocab_size(), setup.model->config().vocab_size);
  for (std::int64_t i = 0; i < tokens; ++i) {
    if (on_progress) on_progress(i, tokens);
    text.push_back(draw_token(next_logits(setup, text), known, draws));
  }
  setup.model->train();
  return tokenizer.decode(text);
}

}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
// The data, the model and the arguments of short runs of Trainer.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/source.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

inline constexpr std::int64_t kTime = 6;

/// Rows of tokens that follow a rule, so that losses fall.
class Rows final : public data::Source {
 public:
  explicit Rows(std::int64_t count) : count_(count) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override {
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < kTime; ++t) ids.push_back(static_cast<std::int32_t>((3 * i + t * (1 + i % 2)) % 11));
    return {{"input_ids", Literal::from<std::int32_t>({kTime}, ids)},
            {"labels", Literal::from<std::int32_t>({kTime}, ids)}};
  }

 private:
  std::int64_t count_;
};

inline nn::GPT2Config tiny_config() {
  nn::GPT2Config config;
  config.vocab_size = 11;
  config.n_positions = kTime;
  config.n_embd = 12;
  config.n_layer = 2;
  config.n_head = 3;
  config.dtype = DType::kF64;
  config.initializer_range = 0.2;
  return config;
}

/// Five rows in an update; writes no files.
inline TrainingArguments quiet(std::int64_t steps) {
  TrainingArguments out;
  out.max_steps = steps;
  out.global_batch_size = 5;
  out.learning_rate = 1e-2;
  out.lr_scheduler_type = "constant";
  out.disable_tqdm = true;
  out.logging_steps = 1;
  out.save_strategy = "no";
  out.dtype = "float64";
  return out;
}

}  // namespace tessera::trainer

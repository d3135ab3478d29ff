// SPDX-License-Identifier: Apache-2.0
// A small decoder with sizes that no mesh of the layout tests divides evenly.
#pragma once

#include <cstdint>

#include "tessera/tensor/dtype.h"

namespace tessera {

inline constexpr std::int64_t kVocabulary = 13;

/// The configuration of Llama, Mistral or Qwen.
template <class Config>
Config small_decoder() {
  Config config = Config::tiny(kVocabulary);
  config.hidden_size = 12;
  config.intermediate_size = 10;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 3;
  config.initializer_range = 0.2;
  config.attention_dropout = 0.1;
  config.dtype = DType::kF64;
  return config;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The published sizes. Their files have a sliding window, but do not use it.
#include "decoder_config.h"
#include "tessera/nn/models/qwen.h"

namespace tessera::nn {
namespace {

// The values that the models of each generation share.
Qwen2Config qwen2_base() {
  Qwen2Config out;
  out.max_position_embeddings = 131072;
  out.sliding_window = 131072;
  out.rope.theta = 1000000;
  return out;
}
Qwen3Config qwen3_base() {
  Qwen3Config out;
  out.num_key_value_heads = 8;
  out.max_position_embeddings = 40960;
  out.sliding_window = 0;
  out.rope.theta = 1000000;
  return out;
}

}  // namespace

Qwen2Config Qwen2Config::tiny(std::int64_t vocab_size) { return tiny_decoder<Qwen2Config>(vocab_size); }

Qwen2Config Qwen2Config::qwen2_0_5b() {
  Qwen2Config out = qwen2_base();
  out.hidden_size = 896;
  out.intermediate_size = 4864;
  out.num_hidden_layers = 24;
  out.num_attention_heads = 14;
  out.num_key_value_heads = 2;
  out.max_window_layers = 24;
  out.tie_word_embeddings = true;
  return out;
}

Qwen2Config Qwen2Config::qwen2_1_5b() {
  Qwen2Config out = qwen2_base();
  out.hidden_size = 1536;
  out.intermediate_size = 8960;
  out.num_hidden_layers = 28;
  out.num_attention_heads = 12;
  out.num_key_value_heads = 2;
  out.tie_word_embeddings = true;
  return out;
}

Qwen2Config Qwen2Config::qwen2_7b() {
  Qwen2Config out = qwen2_base();
  out.vocab_size = 152064;
  out.hidden_size = 3584;
  out.intermediate_size = 18944;
  out.num_hidden_layers = 28;
  out.num_attention_heads = 28;
  out.num_key_value_heads = 4;
  return out;
}

Qwen3Config Qwen3Config::tiny(std::int64_t vocab_size) {
  auto out = tiny_decoder<Qwen3Config>(vocab_size);
  out.head_dim = 10;
  return out;
}

Qwen3Config Qwen3Config::qwen3_0_6b() {
  Qwen3Config out = qwen3_base();
  out.hidden_size = 1024;
  out.intermediate_size = 3072;
  out.num_hidden_layers = 28;
  out.num_attention_heads = 16;
  out.tie_word_embeddings = true;
  return out;
}

Qwen3Config Qwen3Config::qwen3_8b() {
  Qwen3Config out = qwen3_base();
  out.intermediate_size = 12288;
  out.num_hidden_layers = 36;
  out.max_window_layers = 36;
  return out;
}

}  // namespace tessera::nn

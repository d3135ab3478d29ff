// SPDX-License-Identifier: Apache-2.0
// Llama (Touvron et al., 2023): the decoder of decoder.h with Hugging Face's configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/nn/models/decoder.h"

namespace tessera::nn {

/// Hugging Face's LlamaConfig. Keys that Tessera does not use are kept, and to_json() writes them back.
struct LlamaConfig {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  double attention_dropout = 0;
  bool mlp_bias = false;
  std::optional<std::int64_t> pad_token_id{};  // this row of the embedding gets no gradient
  RopeConfig rope{};
  DType dtype = DType::kF32;  // of parameters; not part of the file
  std::string source_json;    // the text of the file, for keys that are not used here

  /// Two layers of 32 channels, 4 heads and 2 groups, for tests.
  static LlamaConfig tiny(std::int64_t vocab_size = 256);
  /// Llama 2 7B, Llama 3 8B, Llama 3.2 1B (tied, with scaled positions) and TinyLlama 1.1B.
  static LlamaConfig llama2_7b();
  static LlamaConfig llama3_8b();
  static LlamaConfig llama32_1b();
  static LlamaConfig tiny_llama_1b();

  /// Errors name `origin`: not JSON, a key that Hugging Face does not have (with the nearest one), a value of the wrong
  /// type or out of range, heads that do not fit together, an unknown activation or kind of position scaling.
  static LlamaConfig from_json(const std::string& text, const std::string& origin = "Llama configuration");
  static LlamaConfig from_file(const std::string& path);
  /// Returns all keys that were read, with the values of the fields above.
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::int64_t groups() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  [[nodiscard]] std::int64_t head_size() const { return head_dim == 0 ? hidden_size / num_attention_heads : head_dim; }
  void check() const;
};

/// Llama with the language-model head.
class LlamaForCausalLM : public DecoderForCausalLM {
 public:
  using Config = LlamaConfig;
  explicit LlamaForCausalLM(const LlamaConfig& config);
  [[nodiscard]] const LlamaConfig& config() const { return config_; }
  [[nodiscard]] std::string config_json() const override { return config_.to_json(); }

 private:
  LlamaConfig config_;
};

}  // namespace tessera::nn

// SPDX-License-Identifier: Apache-2.0
// Mistral (Jiang et al., 2023): the decoder of decoder.h with a sliding window in every layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/nn/models/decoder.h"

namespace tessera::nn {

/// Hugging Face's MistralConfig. Keys that Tessera does not use are kept, and to_json() writes them back.
struct MistralConfig {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 14336;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 8;  // 0: num_attention_heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 131072;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  std::int64_t sliding_window = 4096;  // 0: none
  double attention_dropout = 0;
  std::optional<std::int64_t> pad_token_id{};  // this row of the embedding gets no gradient
  RopeConfig rope{};
  DType dtype = DType::kF32;  // of parameters; not part of the file
  std::string source_json;    // the text of the file, for keys that are not used here

  /// Two layers of 32 channels, 4 heads and 2 groups, with a window of 16, for tests.
  static MistralConfig tiny(std::int64_t vocab_size = 256);
  /// Mistral-7B-v0.1, with a window of 4096.
  static MistralConfig mistral_7b();
  /// Mistral-7B-v0.3, with a larger vocabulary and no window.
  static MistralConfig mistral_7b_v03();

  /// Errors: those of LlamaConfig::from_json(); a window of 0 positions.
  static MistralConfig from_json(const std::string& text, const std::string& origin = "Mistral configuration");
  static MistralConfig from_file(const std::string& path);
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::int64_t groups() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  [[nodiscard]] std::int64_t head_size() const { return head_dim == 0 ? hidden_size / num_attention_heads : head_dim; }
  void check() const;
};

/// Mistral with the language-model head.
class MistralForCausalLM : public DecoderForCausalLM {
 public:
  using Config = MistralConfig;
  explicit MistralForCausalLM(const MistralConfig& config);
  [[nodiscard]] const MistralConfig& config() const { return config_; }
  [[nodiscard]] std::string config_json() const override { return config_.to_json(); }

 private:
  MistralConfig config_;
};

}  // namespace tessera::nn

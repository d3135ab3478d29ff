// SPDX-License-Identifier: Apache-2.0
// Qwen2 (Yang et al., 2024; Qwen2.5 has the same classes) and Qwen3 (Yang et al., 2025): the decoder of decoder.h.
// Qwen2 has biases of queries, keys and values. Qwen3 normalizes each head of queries and keys. Some of their layers
// may have a sliding window.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/nn/models/decoder.h"

namespace tessera::nn {

/// Hugging Face's Qwen2Config. Keys that Tessera does not use are kept, and to_json() writes them back.
struct Qwen2Config {
  std::int64_t vocab_size = 151936;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 22016;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 32;  // 0: num_attention_heads
  std::int64_t head_dim = 0;              // 0: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 32768;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool use_sliding_window = false;
  std::int64_t sliding_window = 4096;  // 0: none; only with use_sliding_window
  std::int64_t max_window_layers = 28;
  /// sliding_attention or full_attention for each layer. Empty: layers from max_window_layers on have the window.
  std::vector<std::string> layer_types{};
  double attention_dropout = 0;
  std::optional<std::int64_t> pad_token_id{};  // this row of the embedding gets no gradient
  RopeConfig rope{};
  DType dtype = DType::kF32;  // of parameters; not part of the file
  std::string source_json;    // the text of the file, for keys that are not used here

  /// Two layers of 32 channels, 4 heads and 2 groups, for tests.
  static Qwen2Config tiny(std::int64_t vocab_size = 256);
  /// Qwen2-0.5B and Qwen2-1.5B (tied) and Qwen2-7B.
  static Qwen2Config qwen2_0_5b();
  static Qwen2Config qwen2_1_5b();
  static Qwen2Config qwen2_7b();

  /// Errors: those of LlamaConfig::from_json(); a window of 0 positions; fewer layer_types than layers, or unknown
  /// ones; sliding_attention without a window. Further layer_types are ignored.
  static Qwen2Config from_json(const std::string& text, const std::string& origin = "Qwen2 configuration");
  static Qwen2Config from_file(const std::string& path);
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::int64_t groups() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  [[nodiscard]] std::int64_t head_size() const { return head_dim == 0 ? hidden_size / num_attention_heads : head_dim; }
  /// The number of positions to which a position attends, by layer. 0: to itself and all positions before it.
  [[nodiscard]] std::vector<std::int64_t> windows() const;
  void check() const;
};

/// Hugging Face's Qwen3Config. Keys that Tessera does not use are kept, and to_json() writes them back.
struct Qwen3Config {
  std::int64_t vocab_size = 151936;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 22016;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 32;  // 0: num_attention_heads
  std::int64_t head_dim = 128;
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 32768;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  bool use_sliding_window = false;
  std::int64_t sliding_window = 4096;  // 0: none; only with use_sliding_window
  std::int64_t max_window_layers = 28;
  /// sliding_attention or full_attention for each layer. Empty: layers from max_window_layers on have the window.
  std::vector<std::string> layer_types{};
  double attention_dropout = 0;
  std::optional<std::int64_t> pad_token_id{};  // this row of the embedding gets no gradient
  RopeConfig rope{};
  DType dtype = DType::kF32;  // of parameters; not part of the file
  std::string source_json;    // the text of the file, for keys that are not used here

  /// Two layers of 32 channels, 4 heads of 10 and 2 groups, for tests.
  static Qwen3Config tiny(std::int64_t vocab_size = 256);
  /// Qwen3-0.6B (tied) and Qwen3-8B.
  static Qwen3Config qwen3_0_6b();
  static Qwen3Config qwen3_8b();

  /// Errors: those of Qwen2Config::from_json().
  static Qwen3Config from_json(const std::string& text, const std::string& origin = "Qwen3 configuration");
  static Qwen3Config from_file(const std::string& path);
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::int64_t groups() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  [[nodiscard]] std::int64_t head_size() const { return head_dim; }
  /// The number of positions to which a position attends, by layer. 0: to itself and all positions before it.
  [[nodiscard]] std::vector<std::int64_t> windows() const;
  void check() const;
};

/// Qwen2 with the language-model head.
class Qwen2ForCausalLM : public DecoderForCausalLM {
 public:
  using Config = Qwen2Config;
  explicit Qwen2ForCausalLM(const Qwen2Config& config);
  [[nodiscard]] const Qwen2Config& config() const { return config_; }
  [[nodiscard]] std::string config_json() const override { return config_.to_json(); }

 private:
  Qwen2Config config_;
};

/// Qwen3 with the language-model head.
class Qwen3ForCausalLM : public DecoderForCausalLM {
 public:
  using Config = Qwen3Config;
  explicit Qwen3ForCausalLM(const Qwen3Config& config);
  [[nodiscard]] const Qwen3Config& config() const { return config_; }
  [[nodiscard]] std::string config_json() const override { return config_.to_json(); }

 private:
  Qwen3Config config_;
};

}  // namespace tessera::nn

// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings (Su et al., 2021) with Hugging Face's conventions: dim i of a head is rotated together
// with dim i + d/2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/json_object.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// The frequencies of rotary embeddings: Hugging Face's `rope_parameters`, or `rope_theta` and `rope_scaling` of older
/// configurations.
struct RopeConfig {
  std::string rope_type = "default";  // default, linear, dynamic, llama3 or yarn
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;                       // llama3
  double high_freq_factor = 4.0;                      // llama3
  std::int64_t original_max_position_embeddings = 0;  // 0: max_position_embeddings
  std::optional<double> attention_factor{};           // yarn, with the four below
  std::optional<double> mscale{};
  std::optional<double> mscale_all_dim{};
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;

  /// Reads both forms from the object of a configuration. Errors, with the key: an unknown type or key, a missing
  /// factor, no low_freq_factor or high_freq_factor of the type llama3.
  static RopeConfig from_json(const JsonObject& config, double default_theta);
  /// The object `rope_parameters`.
  [[nodiscard]] JsonObject to_json() const;
  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
  /// Error, which begins with `origin`, if the values do not define frequencies.
  void check(const std::string& origin) const;
};

/// `inverse` is the angle per position of each of the `dim / 2` pairs. `attention_factor` multiplies cosine and sine.
struct RopeFrequencies {
  std::vector<double> inverse;
  double attention_factor = 1;
};
/// Computes the frequencies. `time` is the number of positions of a call; only the type `dynamic` depends on it.
RopeFrequencies rope_frequencies(const RopeConfig& config, std::int64_t dim, std::int64_t max_positions,
                                 std::int64_t time = 0);

/// The cosines and sines of positions. Positions beyond `max_positions` are allowed.
class RotaryEmbedding : public Callable<RotaryEmbedding> {
 public:
  struct Tables {
    Tensor cos, sin;  // [t, dim] of positions 0 … t - 1, or [..., dim] of given positions
  };
  /// `dim` is the size of a head. Errors: it is odd, or 2 with the type `dynamic`; max_positions < 1.
  RotaryEmbedding(std::int64_t dim, std::int64_t max_positions, RopeConfig config = {});
  /// Tables of the positions 0 … time - 1.
  Tables forward(std::int64_t time, DType dtype);
  /// Tables of given positions: integers [...], such as [b, t]. The frequencies of the type `dynamic` follow from the
  /// largest position, which the program computes.
  Tables forward(const Tensor& positions, DType dtype);
  [[nodiscard]] std::string_view class_name() const override { return "RotaryEmbedding"; }

 private:
  static Tables tables(const Tensor& positions, const Tensor& inverse, double factor, DType dtype);
  Tables constant_tables(const Tensor& positions, std::int64_t time, DType dtype);
  std::int64_t dim_, max_positions_;
  RopeConfig config_;
};

/// Rotates x [b, t, heads ..., d] by tables [t, d] or [b, t, d].
Tensor apply_rotary(const Tensor& x, const RotaryEmbedding::Tables& tables);

}  // namespace tessera::nn

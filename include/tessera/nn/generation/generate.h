// SPDX-License-Identifier: Apache-2.0
// Generates text with a causal language model. The model first reads the prompts in chunks, and then one token per
// step. The cache of keys and values stays on the devices.
//
//   const auto texts = nn::generate(model, {tokenizer.encode("Once upon")}, {.max_new_tokens = 40, .do_sample = true});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/nn/models/model.h"

namespace tessera::nn {

/// Names and defaults are those of Hugging Face's GenerationConfig, except that top_k is off by default.
struct GenerationOptions {
  std::int64_t max_new_tokens = 20;
  /// False: always the token with the largest logit. The devices find it, so NaN is not an error.
  bool do_sample = false;
  double temperature = 1;  // divides the logits
  std::int64_t top_k = 0;  // draw from this many tokens with the largest logits; 0: all
  double top_p = 1;        // draw from the fewest most probable tokens with at least this total probability
  std::uint64_t seed = 0;
  /// A text ends after the first of these tokens.
  std::vector<std::int32_t> stop_tokens{};
  /// Only ids below this number are drawn; 0: all ids.
  std::int64_t known_tokens = 0;
  /// Called after each token with the number of new tokens; false ends the generation.
  std::function<bool(std::int64_t count)> on_token{};
};

/// Errors: a negative max_new_tokens or top_k, a temperature that is not positive, a top_p outside of (0, 1].
void check_generation(const GenerationOptions& options);

using Tokens = std::vector<std::int32_t>;

/// The size of the cache, and its sharding.
struct GeneratorOptions {
  std::int64_t batch = 1;
  /// The most tokens of a text that the model reads. 0: one less than the model has positions, because the last
  /// position has no label in training. If a text becomes longer, generation continues from its last window / 2 tokens.
  std::int64_t window = 0;
  /// The model reads prompts in chunks of this many tokens. The first chunk of a shorter prompt begins with padding.
  std::int64_t prompt_chunk = 32;
  Mesh mesh{};             // without axes: one device, or the placement that the partitioner finds
  SpecEntry batch_axes{};  // the axes of the mesh that shard the batch
};

/// Generates texts with one model. It compiles two programs: one reads a chunk of each prompt, and the other reads one
/// token of each text. The model must outlive the Generator. Changes of its parameters take effect.
class Generator {
 public:
  /// Errors: an empty batch or chunk; no window for a model without a limit, or one beyond the model's positions.
  Generator(CausalLM& model, GeneratorOptions options);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  /// Continues up to `batch` prompts of any lengths. Returns the prompts with the new tokens. Collective: all ranks
  /// pass the same prompts and get the same texts. The model is in evaluation mode during the call. Errors: an empty
  /// prompt, a token that the model does not have, options out of range, logits that are not finite (draw_token()).
  std::vector<Tokens> generate(const std::vector<Tokens>& prompts, const GenerationOptions& options = {});

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Continues the prompts with a new Generator. Its batch is the number of prompts. Its window contains the prompts and
/// the new tokens, if the model has enough positions.
std::vector<Tokens> generate(CausalLM& model, const std::vector<Tokens>& prompts, const GenerationOptions& options = {},
                             GeneratorOptions placement = {});

/// Draws a token from the logits with temperature, top_k and top_p. `draw` is the random number, in [0, 1). A logit of
/// -inf excludes its token. Errors: a logit of a known token is NaN or +inf, or all are -inf.
std::int32_t draw_token(std::span<const float> logits, const GenerationOptions& options, double draw);

}  // namespace tessera::nn

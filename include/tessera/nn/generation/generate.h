// SPDX-License-Identifier: Apache-2.0
// Text from a causal language model: one step for the prompts, then one step for each token, with a cache of keys and
// values that stays on the devices.
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

/// Names and defaults are those of Hugging Face's GenerationConfig, but top_k is off.
struct GenerationOptions {
  std::int64_t max_new_tokens = 20;
  /// False: always the token with the largest logit.
  bool do_sample = false;
  double temperature = 1;  // divides the logits
  std::int64_t top_k = 0;  // draw from this many tokens with the largest logits; 0: all
  double top_p = 1;        // draw from the likeliest tokens whose probabilities add up to at least this
  std::uint64_t seed = 0;
  /// A text ends with the first of these tokens, which it keeps.
  std::vector<std::int32_t> stop_tokens{};
  /// Only ids below this are drawn; 0: all.
  std::int64_t known_tokens = 0;
  /// Called after each token with the number of new tokens; false ends the generation.
  std::function<bool(std::int64_t count)> on_token{};
};

using Tokens = std::vector<std::int32_t>;

/// The size of the cache, and its sharding.
struct GeneratorOptions {
  std::int64_t batch = 1;
  /// The most tokens of a text that the model reads; 0: all positions of the model. A text that grows beyond them
  /// continues from its last half.
  std::int64_t window = 0;
  /// The model reads prompts in chunks of this many tokens. The first chunk of a shorter prompt begins with padding.
  std::int64_t prompt_chunk = 32;
  Mesh mesh{};             // without axes: one device, or the placement that the partitioner finds
  SpecEntry batch_axes{};  // of the mesh, that shard the batch
};

/// Generates texts from one model. It compiles two programs: one reads a chunk of the prompts, and one a token of each
/// text. The model must outlive it; changes of its parameters take effect.
class Generator {
 public:
  /// Errors: an empty batch or chunk; no window for a model without a limit, or one beyond the model's positions.
  Generator(CausalLM& model, GeneratorOptions options);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  /// Continues up to `batch` prompts of any lengths. Returns the prompts with the new tokens. Collective: all ranks pass
  /// the same prompts and get the same texts. The model is in evaluation mode meanwhile. Errors: an empty prompt, a
  /// token that the model does not have, options out of range.
  std::vector<Tokens> generate(const std::vector<Tokens>& prompts, const GenerationOptions& options = {});

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Continues the prompts with a Generator made for them: of their number, with a window that holds them and the new
/// tokens if the model has so many positions.
std::vector<Tokens> generate(CausalLM& model, const std::vector<Tokens>& prompts, const GenerationOptions& options = {},
                             GeneratorOptions placement = {});

/// Draws a token from the logits by temperature, top_k and top_p; `draw` in [0, 1) chooses it.
std::int32_t draw_token(std::span<const float> logits, const GenerationOptions& options, double draw);

}  // namespace tessera::nn

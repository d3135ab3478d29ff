// SPDX-License-Identifier: Apache-2.0
// Generates text with the model that is being trained.
#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/nn/generation/generate.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {
namespace {

constexpr double kTemperature = 0.8;
constexpr std::int64_t kLikeliest = 40;

// The label shift leaves the last position of a block without a label, so training never reaches it: position
// block_size - 2 is the last one that is read, even for longer texts.
std::int64_t window_of(const ClmModel& setup) { return std::max<std::int64_t>(setup.block_size - 1, 2); }

}  // namespace

std::string sample_text(ClmModel& setup, const data::Tokenizer& tokenizer, const std::string& prompt,
                        std::int64_t tokens, std::uint64_t seed, const OnProgress& on_progress) {
  std::vector<std::int32_t> start = tokenizer.document_prefix();
  for (const std::int32_t id : tokenizer.encode(prompt)) start.push_back(id);
  if (start.empty()) start.push_back(tokenizer.end_of_text().value_or(tokenizer.encode("\n").front()));
  if (on_progress && !on_progress(0, tokens)) return tokenizer.decode(start);
  nn::GenerationOptions options{.max_new_tokens = tokens,
                                .do_sample = true,
                                .temperature = kTemperature,
                                .top_k = kLikeliest,
                                .seed = seed,
                                .known_tokens = tokenizer.vocab_size()};
  options.on_token = [&](std::int64_t count) { return count >= tokens || !on_progress || on_progress(count, tokens); };
  nn::Generator generator(*setup.model, {.window = window_of(setup), .mesh = setup.mesh});
  return tokenizer.decode(generator.generate({start}, options).front());
}

}  // namespace tessera::trainer

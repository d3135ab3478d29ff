// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/nn/generation/generate.h"

namespace tessera::nn {

std::int32_t draw_token(std::span<const float> logits, const GenerationOptions& options, double draw) {
  const std::int64_t known =
      options.known_tokens > 0 ? std::min<std::int64_t>(options.known_tokens, isize(logits)) : isize(logits);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(known));
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  // Of equal logits, the first token comes first on every machine.
  const auto is_likelier = [&](std::int32_t a, std::int32_t b) {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  };
  // A logit of -inf excludes its token.
  const auto is_wrong = [&](std::int32_t id) { return !(logit(id) < std::numeric_limits<float>::infinity()); };
  const auto wrong = std::find_if(ids.begin(), ids.end(), is_wrong);
  if (wrong != ids.end()) fail("the logits are not finite: that of token {} is {}", *wrong, logit(*wrong));
  const std::int32_t likeliest = *std::min_element(ids.begin(), ids.end(), is_likelier);
  require(std::isfinite(logit(likeliest)), "the logits are not finite: all of them are {}", logit(likeliest));
  if (!options.do_sample) return likeliest;
  if (options.top_k > 0 && options.top_k < known) {
    std::nth_element(ids.begin(), ids.begin() + (options.top_k - 1), ids.end(), is_likelier);
    ids.resize(static_cast<std::size_t>(options.top_k));
  }
  if (options.top_p < 1 || options.top_k > 0) std::sort(ids.begin(), ids.end(), is_likelier);
  const double largest = logit(likeliest);
  std::vector<double> weights;
  for (const std::int32_t id : ids) weights.push_back(std::exp((logit(id) - largest) / options.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p < 1) {
    double sum = 0;
    std::size_t kept = 0;
    while (kept < weights.size() && sum < options.top_p * total) sum += weights[kept++];
    weights.resize(std::max<std::size_t>(kept, 1));
    total = std::max(sum, weights.front());
  }
  double rest = draw * total;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return ids[i];
  }
  return ids[weights.size() - 1];
}

}  // namespace tessera::nn

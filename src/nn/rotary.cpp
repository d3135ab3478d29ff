// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/structural.h"

namespace tessera::nn {
namespace {

const std::vector<std::string> kRopeTypes{"default", "linear", "dynamic", "llama3", "yarn"};

void check_rope_type(const std::string& type, const std::string& origin) {
  require(std::find(kRopeTypes.begin(), kRopeTypes.end(), type) != kRopeTypes.end(),
          "{}: rope_type \"{}\" is not supported{}", origin, type, [&] { return suggest_name(type, kRopeTypes); });
}

// Keys that must have one value: `finetuned` is a note, and the others would change the computation.
void check_fixed_rope_keys(const JsonObject& json) {
  for (const char* key : {"partial_rotary_factor", "attn_factor"}) {
    double value = 1;
    if (!json.is_null(key)) json.read(key, value);
    require(value == 1, "{}: {} {} is not supported; it must be 1{}", json.origin(), key, value,
            std::string_view(key) == "attn_factor" ? ", and attention_factor scales the cosines and sines" : "");
  }
}

void read_rope_keys(const JsonObject& json, RopeConfig& out) {
  const auto read = [&](const char* key, auto& value) {
    if (!json.is_null(key)) json.read(key, value);
  };
  read("type", out.rope_type);
  read("rope_type", out.rope_type);
  check_rope_type(out.rope_type, json.origin());  // other types have other keys
  json.require_known({"rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
                      "original_max_position_embeddings", "attention_factor", "attn_factor", "mscale", "mscale_all_dim",
                      "beta_fast", "beta_slow", "truncate", "partial_rotary_factor", "finetuned"});
  check_fixed_rope_keys(json);
  read("rope_theta", out.theta);
  read("factor", out.factor);
  read("low_freq_factor", out.low_freq_factor);
  read("high_freq_factor", out.high_freq_factor);
  read("original_max_position_embeddings", out.original_max_position_embeddings);
  read("attention_factor", out.attention_factor);
  read("mscale", out.mscale);
  read("mscale_all_dim", out.mscale_all_dim);
  read("beta_fast", out.beta_fast);
  read("beta_slow", out.beta_slow);
  read("truncate", out.truncate);
  require(out.rope_type == "default" || json.has("factor"), "{}: rope_type \"{}\" needs a factor", json.origin(),
          out.rope_type);
  for (const char* key : {"low_freq_factor", "high_freq_factor"})
    require(out.rope_type != "llama3" || (json.has(key) && !json.is_null(key)), "{}: rope_type \"llama3\" needs a {}",
            json.origin(), key);
}

// Hugging Face computes the frequencies in f32, and so must this, because positions multiply the rounding errors.
std::vector<float> plain_frequencies(double theta, std::int64_t dim) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < dim; i += 2)
    out.push_back(1.0F / std::pow(static_cast<float>(theta), static_cast<float>(i) / static_cast<float>(dim)));
  return out;
}

// Long waves are slowed down by the factor, short ones are kept; between them both are mixed.
void scale_for_llama3(const RopeConfig& config, double original, std::vector<float>& frequencies) {
  for (float& frequency : frequencies) {
    const double wave = 2 * std::numbers::pi / static_cast<double>(frequency);
    if (wave > original / config.low_freq_factor) {
      frequency = static_cast<float>(frequency / config.factor);
    } else if (wave >= original / config.high_freq_factor) {
      const double smooth =
          (original / wave - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
      frequency = static_cast<float>((1 - smooth) * frequency / config.factor + smooth * frequency);
    }
  }
}

// YaRN (Peng et al., 2023): dims that turn often keep their frequency, dims that turn seldom are slowed down.
void scale_for_yarn(const RopeConfig& config, std::int64_t dim, double original, std::vector<float>& frequencies) {
  const auto dim_of_turns = [&](double turns) {
    return static_cast<double>(dim) * std::log(original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.theta));
  };
  double low = dim_of_turns(config.beta_fast);
  double high = dim_of_turns(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double slowed = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double plain = frequencies[i];
    frequencies[i] = static_cast<float>(plain / config.factor * slowed + plain * (1 - slowed));
  }
}

double yarn_attention_factor(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  const auto factor_of = [&](double scale) {
    return config.factor <= 1 ? 1.0 : 0.1 * scale * std::log(config.factor) + 1.0;
  };
  if (config.mscale.value_or(0) != 0 && config.mscale_all_dim.value_or(0) != 0)
    return factor_of(*config.mscale) / factor_of(*config.mscale_all_dim);
  return factor_of(1);
}

// The base of `dynamic` grows with the number of positions beyond those of training. Hugging Face's model also keeps the
// base of a longer text for later texts until one is shorter than in training; here, a call depends only on its own text.
double dynamic_theta(const RopeConfig& config, std::int64_t dim, std::int64_t max_positions, std::int64_t time) {
  const double ratio = static_cast<double>(std::max(time, max_positions)) / static_cast<double>(max_positions);
  const double exponent = static_cast<double>(dim) / static_cast<double>(dim - 2);
  return config.theta * std::pow(config.factor * ratio - (config.factor - 1), exponent);
}

// The frequencies of `dynamic` for positions that are values of the program: [dim], each half of them the same. Computed
// in f64, because positions multiply the rounding errors.
Tensor dynamic_frequencies(const RopeConfig& config, std::int64_t dim, std::int64_t max_positions,
                           const Tensor& positions) {
  const auto size = static_cast<double>(dim);
  const auto most = static_cast<double>(max_positions);
  const Tensor count = maximum(max(positions).to(DType::kF64) + 1.0, most);
  const Tensor growth = count * (config.factor / most) - (config.factor - 1);
  const Tensor logarithm = log(growth) * (size / (size - 2)) + std::log(config.theta);  // of the base
  std::vector<double> exponents;
  for (std::int64_t i = 0; i < dim; ++i) exponents.push_back(-static_cast<double>(i % (dim / 2)) * 2 / size);
  const Tensor each = trace().record(trace().call_site(std::source_location::current()), [&](Builder& builder) {
    return ops::constant(builder, Literal::from<double>({dim}, exponents));
  });
  return exp(each * logarithm).to(DType::kF32);
}

}  // namespace

RopeConfig RopeConfig::from_json(const JsonObject& config, double default_theta) {
  RopeConfig out;
  out.theta = default_theta;
  if (config.has("rope_theta") && !config.is_null("rope_theta")) config.read("rope_theta", out.theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key) || config.is_null(key)) continue;
    JsonObject json;
    config.read(key, json);
    read_rope_keys(json, out);
  }
  out.check(config.origin());
  return out;
}

JsonObject RopeConfig::to_json() const {
  JsonObject out;
  out.set("rope_type", rope_type);
  out.set("rope_theta", theta);
  if (rope_type != "default") out.set("factor", factor);
  if (original_max_position_embeddings != 0)
    out.set("original_max_position_embeddings", original_max_position_embeddings);
  if (rope_type == "llama3") {
    out.set("low_freq_factor", low_freq_factor);
    out.set("high_freq_factor", high_freq_factor);
  }
  if (rope_type != "yarn") return out;
  if (attention_factor) out.set("attention_factor", *attention_factor);
  if (mscale) out.set("mscale", *mscale);
  if (mscale_all_dim) out.set("mscale_all_dim", *mscale_all_dim);
  out.set("beta_fast", beta_fast);
  out.set("beta_slow", beta_slow);
  out.set("truncate", truncate);
  return out;
}

void RopeConfig::check(const std::string& origin) const {
  check_rope_type(rope_type, origin);
  require(theta > 0, "{}: rope_theta must be above 0, got {}", origin, theta);
  require(factor >= 1, "{}: the factor of rope_type \"{}\" must be at least 1, got {}", origin, rope_type, factor);
  require(rope_type != "llama3" || (low_freq_factor > 0 && high_freq_factor > low_freq_factor),
          "{}: high_freq_factor {} must be above low_freq_factor {}, and both above 0", origin, high_freq_factor,
          low_freq_factor);
  require(original_max_position_embeddings >= 0, "{}: original_max_position_embeddings must not be negative, got {}",
          origin, original_max_position_embeddings);
}

RopeFrequencies rope_frequencies(const RopeConfig& config, std::int64_t dim, std::int64_t max_positions,
                                 std::int64_t time) {
  config.check("rotary embedding");
  const std::string& type = config.rope_type;
  const std::int64_t given = config.original_max_position_embeddings;
  const auto original = static_cast<double>(given == 0 ? max_positions : given);
  const double theta = type == "dynamic" ? dynamic_theta(config, dim, max_positions, time) : config.theta;
  std::vector<float> frequencies = plain_frequencies(theta, dim);
  RopeFrequencies out;
  if (type == "linear")
    for (float& frequency : frequencies) frequency /= static_cast<float>(config.factor);
  if (type == "llama3") scale_for_llama3(config, original, frequencies);
  if (type == "yarn") {
    scale_for_yarn(config, dim, original, frequencies);
    out.attention_factor = yarn_attention_factor(config);
  }
  out.inverse.assign(frequencies.begin(), frequencies.end());
  return out;
}

RotaryEmbedding::RotaryEmbedding(std::int64_t dim, std::int64_t max_positions, RopeConfig config)
    : dim_(dim), max_positions_(max_positions), config_(std::move(config)) {
  require(dim >= 2 && dim % 2 == 0, "RotaryEmbedding needs an even size of heads, got {}", dim);
  require(max_positions >= 1, "RotaryEmbedding needs at least one position, got {}", max_positions);
  config_.check("RotaryEmbedding");
  require(config_.rope_type != "dynamic" || dim >= 4, "rope_type \"dynamic\" needs heads of at least 4, got {}", dim);
}

// `inverse` [dim] is the angle of each element per position.
RotaryEmbedding::Tables RotaryEmbedding::tables(const Tensor& positions, const Tensor& inverse, double factor,
                                                DType dtype) {
  const Tensor angles = positions.to(DType::kF32).unsqueeze(-1) * inverse;
  const auto scaled = [&](const Tensor& table) { return (factor == 1 ? table : table * factor).to(dtype); };
  return {scaled(cos(angles)), scaled(sin(angles))};
}

RotaryEmbedding::Tables RotaryEmbedding::constant_tables(const Tensor& positions, std::int64_t time, DType dtype) {
  const RopeFrequencies frequencies = rope_frequencies(config_, dim_, max_positions_, time);
  std::vector<float> both(frequencies.inverse.begin(), frequencies.inverse.end());
  both.insert(both.end(), both.begin(), both.end());
  const Tensor inverse = trace().record(trace().call_site(std::source_location::current()), [&](Builder& builder) {
    return ops::constant(builder, Literal::from<float>({dim_}, both));
  });
  return tables(positions, inverse, frequencies.attention_factor, dtype);
}

RotaryEmbedding::Tables RotaryEmbedding::forward(std::int64_t time, DType dtype) {
  return constant_tables(Tensor::iota(Type::array(DType::kS32, {time}), 0), time, dtype);
}

RotaryEmbedding::Tables RotaryEmbedding::forward(const Tensor& positions, DType dtype) {
  require(is_integer(positions.dtype()) && positions.ndim() >= 1,
          "RotaryEmbedding needs integer positions [..., t], got {}", positions.type());
  if (config_.rope_type != "dynamic") return constant_tables(positions, max_positions_, dtype);
  return tables(positions, dynamic_frequencies(config_, dim_, max_positions_, positions), 1, dtype);
}

Tensor apply_rotary(const Tensor& x, const RotaryEmbedding::Tables& tables) {
  require(x.ndim() >= 3 && tables.cos.dim(-1) == x.dim(-1),
          "apply_rotary needs x [b, t, ..., d] and tables of d numbers for each position, got {} and {}", x.type(),
          tables.cos.type());
  const auto for_heads = [&](const Tensor& table) {
    Dims dims = table.dims();
    dims.insert(dims.end() - 1, static_cast<std::size_t>(x.ndim() - 3), 1);
    return table.reshape(dims);
  };
  const std::int64_t half = x.dim(-1) / 2;
  const int last = x.ndim() - 1;
  const Tensor turned = concat({-x.slice(last, half, 2 * half), x.slice(last, 0, half)}, last);
  return x * for_heads(tables.cos) + turned * for_heads(tables.sin);
}

}  // namespace tessera::nn

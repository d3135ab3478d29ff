// SPDX-License-Identifier: Apache-2.0
// The keys that the configurations of decoders with rotary positions have in common, and the decoder that they describe.
#pragma once

#include <algorithm>
#include <string>

#include "config_form.h"
#include "tessera/base/text.h"
#include "tessera/nn/activation.h"
#include "tessera/nn/models/decoder.h"
#include "tessera/nn/rotary.h"

namespace tessera::nn {

template <class Config, class Visit>
void visit_decoder_keys(Config& config, Visit&& visit) {
  visit("vocab_size", config.vocab_size);
  visit("hidden_size", config.hidden_size);
  visit("intermediate_size", config.intermediate_size);
  visit("num_hidden_layers", config.num_hidden_layers);
  visit("num_attention_heads", config.num_attention_heads);
  visit("hidden_act", config.hidden_act);
  visit("max_position_embeddings", config.max_position_embeddings);
  visit("initializer_range", config.initializer_range);
  visit("rms_norm_eps", config.rms_norm_eps);
  visit("tie_word_embeddings", config.tie_word_embeddings);
  visit("attention_dropout", config.attention_dropout);
}

/// Reads the keys that may be null, and the positions.
template <class Config>
void read_decoder_keys(const JsonObject& json, double default_theta, Config& config) {
  if (json.is_null("num_key_value_heads")) config.num_key_value_heads = 0;
  for (const char* key : {"num_key_value_heads", "head_dim"}) {
    if (!json.has(key) || json.is_null(key)) continue;
    std::int64_t value = 0;
    json.read(key, value);
    check_config_size(json.origin(), key, value);
    (std::string_view(key) == "head_dim" ? config.head_dim : config.num_key_value_heads) = value;
  }
  json.read("pad_token_id", config.pad_token_id);
  config.rope = RopeConfig::from_json(json, default_theta);
}

/// Reads sliding_window. Null is read as 0, which means no window.
template <class Config>
void read_sliding_window(const JsonObject& json, Config& config) {
  if (!json.has("sliding_window")) return;
  config.sliding_window = 0;
  if (json.is_null("sliding_window")) return;
  json.read("sliding_window", config.sliding_window);
  check_config_size(json.origin(), "sliding_window", config.sliding_window);
}

/// Writes the number, and null instead of 0.
inline void write_or_null(JsonObject& json, const char* key, std::int64_t value) {
  if (value != 0) return json.set(key, value);
  json.set_null(key);
}

/// Writes them. Keys of the source that still describe the positions are kept.
template <class Config>
void write_decoder_keys(const Config& config, double default_theta, JsonObject& json) {
  write_or_null(json, "num_key_value_heads", config.num_key_value_heads);
  // Not every class of Hugging Face accepts a null head_dim, but each one computes a missing head_dim.
  const bool is_given = json.has("head_dim") && !json.is_null("head_dim");
  if (config.head_dim != 0 || is_given) json.set("head_dim", config.head_size());
  if (config.pad_token_id) {
    json.set("pad_token_id", *config.pad_token_id);
  } else {
    json.set_null("pad_token_id");
  }
  if (!config.source_json.empty() && RopeConfig::from_json(json, default_theta) == config.rope) return;
  if (json.has("rope_scaling")) json.set_null("rope_scaling");
  json.set("rope_theta", config.rope.theta);
  json.set("rope_parameters", config.rope.to_json());
}

template <class Config>
void check_decoder(const Config& config, const std::string& origin) {
  visit_decoder_keys(config, [&]<class T>(const char* key, const T& value) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      const bool is_count = key == std::string_view("num_hidden_layers");
      is_count ? check_config_count(origin, key, value) : check_config_size(origin, key, value);
    }
  });
  require(config.head_dim != 0 || config.hidden_size % config.num_attention_heads == 0,
          "{}: hidden_size {} is not a multiple of num_attention_heads {}", origin, config.hidden_size,
          config.num_attention_heads);
  require(config.num_attention_heads % config.groups() == 0,
          "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}", origin, config.num_attention_heads,
          config.groups());
  require(config.head_size() % 2 == 0, "{}: heads of {} have no rotary positions; the size must be even", origin,
          config.head_size());
  require(
      std::find(activation_names().begin(), activation_names().end(), config.hidden_act) != activation_names().end(),
      "{}: unknown hidden_act \"{}\"{}", origin, config.hidden_act,
      [&] { return suggest_name(config.hidden_act, activation_names()); });
  check_config_probability(origin, "attention_dropout", config.attention_dropout);
  require(config.rms_norm_eps > 0, "{}: rms_norm_eps must be above 0, got {}", origin, config.rms_norm_eps);
  require(config.initializer_range >= 0, "{}: initializer_range must not be negative, got {}", origin,
          config.initializer_range);
  require(
      !config.pad_token_id || (*config.pad_token_id >= -config.vocab_size && *config.pad_token_id < config.vocab_size),
      "{}: pad_token_id {} is not one of {} tokens", origin, config.pad_token_id.value_or(0), config.vocab_size);
  config.rope.check(origin);
}

template <class Config>
void check_sliding_window(const Config& config, const std::string& origin) {
  require(config.sliding_window >= 0, "{}: sliding_window must not be negative, got {}", origin, config.sliding_window);
}

/// The preset tiny(): 2 layers of 32 channels.
template <class Config>
Config tiny_decoder(std::int64_t vocab_size) {
  Config out;
  out.vocab_size = vocab_size;
  out.hidden_size = 32;
  out.intermediate_size = 88;
  out.num_hidden_layers = 2;
  out.num_attention_heads = 4;
  out.num_key_value_heads = 2;
  out.max_position_embeddings = 128;
  return out;
}

/// The decoder of a configuration without biases, norms of heads and windows. `family` is the first part of the names
/// of its classes.
template <class Config>
DecoderOptions decoder_options(const Config& config, const std::string& family) {
  return {.family = family,
          .vocabulary = config.vocab_size,
          .positions = config.max_position_embeddings,
          .layers = config.num_hidden_layers,
          .inner = config.intermediate_size,
          .activation = config.hidden_act,
          .epsilon = config.rms_norm_eps,
          .tie_word_embeddings = config.tie_word_embeddings,
          .pad_token_id = config.pad_token_id,
          .rope = config.rope,
          .attention = {.width = config.hidden_size,
                        .heads = config.num_attention_heads,
                        .groups = config.groups(),
                        .head_size = config.head_size(),
                        .dropout = config.attention_dropout,
                        .initializer_range = config.initializer_range,
                        .dtype = config.dtype}};
}

}  // namespace tessera::nn

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "config_form.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/nn/models/gpt2.h"

namespace tessera::nn {
namespace {

// The list of keys that both reading and writing use.
template <class Config, class Visit>
void for_each_key(Config& config, Visit&& visit) {
  visit("vocab_size", config.vocab_size);
  visit("n_positions", config.n_positions);
  visit("n_embd", config.n_embd);
  visit("n_layer", config.n_layer);
  visit("n_head", config.n_head);
  visit("n_inner", config.n_inner);
  visit("activation_function", config.activation_function);
  visit("resid_pdrop", config.resid_pdrop);
  visit("embd_pdrop", config.embd_pdrop);
  visit("attn_pdrop", config.attn_pdrop);
  visit("layer_norm_epsilon", config.layer_norm_epsilon);
  visit("initializer_range", config.initializer_range);
  visit("tie_word_embeddings", config.tie_word_embeddings);
  visit("scale_attn_weights", config.scale_attn_weights);
  visit("scale_attn_by_inverse_layer_idx", config.scale_attn_by_inverse_layer_idx);
}

// The other keys of Hugging Face's GPT-2 configurations. All of them are kept. Keys that begin with _ are private to
// Hugging Face.
constexpr std::string_view kKept =
    "model_type architectures n_ctx summary_type summary_use_proj summary_activation summary_first_dropout "
    "summary_proj_to_labels use_cache bos_token_id eos_token_id pad_token_id sep_token_id "
    "decoder_start_token_id reorder_and_upcast_attn add_cross_attention torch_dtype "
    "dtype transformers_version task_specific_params output_hidden_states output_attentions output_past return_dict "
    "is_encoder_decoder is_decoder cross_attention_hidden_size tie_encoder_decoder max_length min_length do_sample "
    "early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty "
    "length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores "
    "return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values finetuning_task id2label "
    "label2id num_labels problem_type tokenizer_class prefix tf_legacy_loss use_bfloat16 torchscript pruned_heads "
    "chunk_size_feed_forward exponential_decay_length_penalty suppress_tokens begin_suppress_tokens "
    "gradient_checkpointing predict_special_tokens quantization_config auto_map attn_implementation n_special "
    "eos_token_ids xla_device name_or_path unsloth_version unsloth_fixed transformers.js_config trust_remote_code";

// Other values of these keys would describe another model than the one built here.
constexpr std::pair<const char*, bool> kFixed[] = {{"add_cross_attention", false}, {"is_encoder_decoder", false}};

void check_keys(const JsonObject& json) {
  std::vector<std::string> known = split(kKept, ' ');
  const GPT2Config config;
  for_each_key(config, [&](const char* key, const auto&) { known.emplace_back(key); });
  for (const auto& key : json.keys()) {
    if (key.starts_with('_') || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_name(key, known);
    fail("{}: unknown key \"{}\"; {}", json.origin(), key,
         near.empty() ? std::string("the keys are those of Hugging Face's GPT2Config")
                      : fmt::format("did you mean \"{}\"?", near));
  }
  for (const auto& [key, value] : kFixed) {
    bool given = value;
    if (json.has(key) && !json.is_null(key)) json.read(key, given);
    require(given == value, "{}: {} {} is not supported; it must be {}", json.origin(), key, given, value);
  }
}

void check_values(const GPT2Config& config, const std::string& origin) {
  check_config_size(origin, "vocab_size", config.vocab_size);
  check_config_size(origin, "n_positions", config.n_positions);
  check_config_size(origin, "n_embd", config.n_embd);
  check_config_count(origin, "n_layer", config.n_layer);
  check_config_size(origin, "n_head", config.n_head);
  require(config.n_inner >= 0, "{}: n_inner must not be negative, got {}; 0 or null means 4 n_embd", origin,
          config.n_inner);
  require(config.n_embd % config.n_head == 0, "{}: n_embd {} is not a multiple of n_head {}", origin, config.n_embd,
          config.n_head);
  check_config_activation(origin, "activation_function", config.activation_function);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{
           {"resid_pdrop", config.resid_pdrop}, {"embd_pdrop", config.embd_pdrop}, {"attn_pdrop", config.attn_pdrop}})
    require(value >= 0 && value < 1, "{}: {} must be in [0, 1), got {}", origin, name, value);
  require(config.layer_norm_epsilon > 0, "{}: layer_norm_epsilon must be above 0, got {}", origin,
          config.layer_norm_epsilon);
  require(config.initializer_range >= 0, "{}: initializer_range must not be negative, got {}", origin,
          config.initializer_range);
}

constexpr const char* kOrigin = "GPT-2 configuration";

}  // namespace

void GPT2Config::check() const { check_values(*this, kOrigin); }

GPT2Config GPT2Config::from_json(const std::string& text) { return from_json(text, kOrigin); }

GPT2Config GPT2Config::from_json(const std::string& text, const std::string& origin) {
  const JsonObject json = JsonObject::parse(text, origin);
  if (json.has("model_type")) {
    std::string type;
    json.read("model_type", type);
    require(type == "gpt2", "{}: model_type must be \"gpt2\", got \"{}\"", origin, type);
  }
  check_keys(json);
  check_unchanged_weights(json);
  GPT2Config config;
  for_each_key(config, [&](const char* key, auto& value) {
    if (!json.is_null(key)) json.read(key, value);
  });
  config.source_json = text;
  check_values(config, origin);
  return config;
}

GPT2Config GPT2Config::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::string GPT2Config::to_json() const {
  JsonObject json(kOrigin);
  if (source_json.empty()) {
    json.set("model_type", "gpt2");
    json.set("architectures", std::vector<std::string>{"GPT2LMHeadModel"});
  } else {
    json = JsonObject::parse(source_json, kOrigin);
  }
  for_each_key(*this, [&](const char* key, const auto& value) {
    // Hugging Face writes null where the inner width is the default.
    if (std::string_view(key) == "n_inner" && n_inner == 0) {
      json.set_null(key);
    } else {
      json.set(key, value);
    }
  });
  return json.str();
}

}  // namespace tessera::nn

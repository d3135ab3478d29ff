// SPDX-License-Identifier: Apache-2.0
#include "config_form.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/activation.h"
#include "tessera/nn/models/classification_loss.h"

namespace tessera::nn {
namespace {

// The keys of every configuration of Hugging Face. Keys that begin with _ are private to it.
constexpr std::string_view kCommonKeys =
    "model_type architectures use_cache bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id "
    "torch_dtype dtype transformers_version task_specific_params output_hidden_states output_attentions return_dict "
    "is_encoder_decoder is_decoder cross_attention_hidden_size tie_encoder_decoder max_length min_length do_sample "
    "early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty "
    "length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores "
    "return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values finetuning_task id2label "
    "label2id num_labels problem_type tokenizer_class prefix tf_legacy_loss use_bfloat16 torchscript pruned_heads "
    "chunk_size_feed_forward exponential_decay_length_penalty suppress_tokens begin_suppress_tokens "
    "gradient_checkpointing quantization_config auto_map attn_implementation add_cross_attention tie_word_embeddings "
    "name_or_path "
    // Written by older versions, by other libraries, and by those that publish models. None changes the computation.
    "output_past eos_token_ids xla_device unsloth_version unsloth_fixed transformers.js_config trust_remote_code "
    "sentence_transformers sbert_ce_default_activation_function max_sequence_length is_llama_config";

}  // namespace

void check_unchanged_weights(const JsonObject& json) {
  require(!json.has("quantization_config") || json.is_null("quantization_config"),
          "{}: quantization_config: quantized weights are not supported; give the model before its quantization",
          json.origin());
  JsonObject heads;
  if (json.is_object("pruned_heads") && json.read("pruned_heads", heads))
    require(heads.keys().empty(),
            "{}: pruned_heads must be empty: layers without some of their heads are not supported", json.origin());
}

void check_config_keys(const JsonObject& json, const ConfigForm& form, std::vector<std::string> known) {
  if (std::string type; json.read("model_type", type))
    require(type == form.model_type, "{}: model_type must be \"{}\", got \"{}\"", json.origin(), form.model_type, type);
  check_unchanged_weights(json);
  for (const auto& [key, value] : form.fixed) known.emplace_back(key);
  for (const std::string_view list : {kCommonKeys, form.kept})
    for (std::string& key : split(list, ' ')) known.push_back(std::move(key));
  for (const auto& key : json.keys()) {
    if (key.starts_with('_') || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_name(key, known);
    fail("{}: unknown key \"{}\"; {}", json.origin(), key,
         near.empty() ? fmt::format("the keys are those of Hugging Face's {}", form.class_name)
                      : fmt::format("did you mean \"{}\"?", near));
  }
  for (const auto& [key, value] : form.fixed) {
    bool given = value;
    if (json.has(key) && !json.is_null(key)) json.read(key, given);
    require(given == value, "{}: {} {} is not supported; it must be {}", json.origin(), key, given, value);
  }
}

void check_config_size(std::string_view origin, std::string_view key, std::int64_t value) {
  constexpr std::int64_t kMost = 1 << 30;  // a product of two such sizes fits in 64 bits
  require(value >= 1 && value <= kMost, "{}: {} must be from 1 to {}, got {}", origin, key, kMost, value);
}

void check_config_count(std::string_view origin, std::string_view key, std::int64_t value) {
  constexpr std::int64_t kMost = 10'000;  // the modules of each are made one by one
  require(value >= 1 && value <= kMost, "{}: {} must be from 1 to {}, got {}", origin, key, kMost, value);
}

void check_config_probability(std::string_view origin, std::string_view key, double value) {
  require(value >= 0 && value < 1, "{}: {} must be in [0, 1), got {}", origin, key, value);
}

void check_config_activation(std::string_view origin, std::string_view key, const std::string& name) {
  const std::vector<std::string>& known = activation_names();
  require(std::find(known.begin(), known.end(), name) != known.end(), "{}: unknown {} \"{}\"{}", origin, key, name,
          [&] { return suggest_name(name, known); });
}

std::int64_t read_label_count(const JsonObject& json) {
  JsonObject labels;
  if (!json.is_null("id2label") && json.read("id2label", labels)) return isize(labels.keys());
  std::int64_t count = 2;
  if (!json.is_null("num_labels")) json.read("num_labels", count);
  return count;
}

void write_label_count(JsonObject& json, std::int64_t count) {
  const bool has_labels = json.has("id2label") || json.has("num_labels");
  if (read_label_count(json) == count && (has_labels || count == 2)) return;
  JsonObject names;
  JsonObject ids;
  for (std::int64_t i = 0; i < count; ++i) {
    names.set(std::to_string(i), fmt::format("LABEL_{}", i));
    ids.set(fmt::format("LABEL_{}", i), i);
  }
  json.set("id2label", names);
  json.set("label2id", ids);
}

std::string read_problem_type(const JsonObject& json) {
  std::string out;
  if (!json.is_null("problem_type")) json.read("problem_type", out);
  check_problem_type(json.origin(), out);
  return out;
}

void write_problem_type(JsonObject& json, const std::string& problem_type) {
  if (!problem_type.empty()) return json.set("problem_type", problem_type);
  if (json.has("problem_type")) json.set_null("problem_type");
}

Tensor as_operand_of(const Tensor& weight, const Tensor& x) {
  const DType dtype = weight.impl().compute_dtype.value_or(weight.dtype());
  return x.dtype() == dtype ? x : x.to(dtype);
}

}  // namespace tessera::nn

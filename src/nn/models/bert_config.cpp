// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config_form.h"
#include "tessera/base/files.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/classification_loss.h"

namespace tessera::nn {
namespace {

template <class Config, class Visit>
void visit_bert_keys(Config& config, Visit&& visit) {
  visit("vocab_size", config.vocab_size);
  visit("hidden_size", config.hidden_size);
  visit("num_hidden_layers", config.num_hidden_layers);
  visit("num_attention_heads", config.num_attention_heads);
  visit("intermediate_size", config.intermediate_size);
  visit("hidden_act", config.hidden_act);
  visit("hidden_dropout_prob", config.hidden_dropout_prob);
  visit("attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  visit("max_position_embeddings", config.max_position_embeddings);
  visit("type_vocab_size", config.type_vocab_size);
  visit("initializer_range", config.initializer_range);
  visit("layer_norm_eps", config.layer_norm_eps);
  visit("tie_word_embeddings", config.tie_word_embeddings);
}

ConfigForm bert_form(std::string_view architecture) {
  return {.class_name = "BertConfig",
          .model_type = "bert",
          .architecture = architecture,
          .kept =
              "classifier_dropout position_embedding_type pooler_fc_size pooler_num_attention_heads "
              "pooler_num_fc_layers pooler_size_per_head pooler_type directionality",
          .fixed = {{"is_decoder", false}, {"add_cross_attention", false}, {"is_encoder_decoder", false}}};
}

void check_bert(const BertConfig& config, const std::string& origin) {
  check_config_size(origin, "vocab_size", config.vocab_size);
  check_config_size(origin, "hidden_size", config.hidden_size);
  check_config_count(origin, "num_hidden_layers", config.num_hidden_layers);
  check_config_size(origin, "num_attention_heads", config.num_attention_heads);
  check_config_size(origin, "intermediate_size", config.intermediate_size);
  check_config_size(origin, "max_position_embeddings", config.max_position_embeddings);
  check_config_size(origin, "type_vocab_size", config.type_vocab_size);
  check_config_size(origin, "the number of labels", config.num_labels);
  check_problem_type(origin, config.problem_type);
  require(config.hidden_size % config.num_attention_heads == 0,
          "{}: hidden_size {} is not a multiple of num_attention_heads {}", origin, config.hidden_size,
          config.num_attention_heads);
  const std::int64_t pad = config.pad_token_id.value_or(0);
  require(pad >= 0 && pad < config.vocab_size, "{}: pad_token_id {} is not below vocab_size {}", origin, pad,
          config.vocab_size);
  check_config_activation(origin, "hidden_act", config.hidden_act);
  check_config_probability(origin, "hidden_dropout_prob", config.hidden_dropout_prob);
  check_config_probability(origin, "attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  if (config.classifier_dropout) check_config_probability(origin, "classifier_dropout", *config.classifier_dropout);
  require(config.layer_norm_eps > 0, "{}: layer_norm_eps must be above 0, got {}", origin, config.layer_norm_eps);
  require(config.initializer_range >= 0, "{}: initializer_range must not be negative, got {}", origin,
          config.initializer_range);
}

}  // namespace

// Found by read_config() and write_config().
template <class Visit>
static void for_each_key(BertConfig& config, Visit&& visit) {
  visit_bert_keys(config, visit);
}
template <class Visit>
static void for_each_key(const BertConfig& config, Visit&& visit) {
  visit_bert_keys(config, visit);
}

BertConfig BertConfig::tiny(std::int64_t vocab_size) {
  BertConfig out;
  out.vocab_size = vocab_size;
  out.hidden_size = 32;
  out.num_hidden_layers = 2;
  out.num_attention_heads = 4;
  out.intermediate_size = 64;
  out.max_position_embeddings = 64;
  return out;
}
BertConfig BertConfig::base() { return {}; }
BertConfig BertConfig::large() {
  BertConfig out;
  out.hidden_size = 1024;
  out.num_hidden_layers = 24;
  out.num_attention_heads = 16;
  out.intermediate_size = 4096;
  return out;
}

void BertConfig::check() const { check_bert(*this, "BERT configuration"); }

BertConfig BertConfig::from_json(const std::string& text, const std::string& origin) {
  const JsonObject json = JsonObject::parse(text, origin);
  auto config = read_config<BertConfig>(json, bert_form(""));
  json.read("classifier_dropout", config.classifier_dropout);
  json.read("pad_token_id", config.pad_token_id);
  if (std::string form; !json.is_null("position_embedding_type") && json.read("position_embedding_type", form))
    require(form == "absolute", "{}: position_embedding_type \"{}\" is not supported; it must be \"absolute\"", origin,
            form);
  config.num_labels = read_label_count(json);
  config.problem_type = read_problem_type(json);
  config.source_json = text;
  check_bert(config, origin);
  return config;
}

BertConfig BertConfig::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::string BertConfig::to_json(const std::string& architecture) const {
  JsonObject json = write_config(*this, bert_form(architecture), source_json);
  json.set("architectures", std::vector<std::string>{architecture});
  const auto set_or_null = [&](const char* key, const auto& value) {
    value ? json.set(key, *value) : json.set_null(key);
  };
  set_or_null("classifier_dropout", classifier_dropout);
  set_or_null("pad_token_id", pad_token_id);
  write_label_count(json, num_labels);
  write_problem_type(json, problem_type);
  return json.str();
}

}  // namespace tessera::nn

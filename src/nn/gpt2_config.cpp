// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/nn/gpt2.h"

namespace tessera::nn {
namespace {

using Json = nlohmann::ordered_json;

// One place lists the keys; reading and writing follow.
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
}

template <class T>
void read_key(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return;
  try {
    value = found->get<T>();
  } catch (const Json::exception&) {
    fail("GPT-2 configuration: {} is of the wrong kind: {}", key, found->dump());
  }
}

}  // namespace

void GPT2Config::check() const {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::int64_t>>{{"vocab_size", vocab_size},
                                                                   {"n_positions", n_positions},
                                                                   {"n_embd", n_embd},
                                                                   {"n_layer", n_layer},
                                                                   {"n_head", n_head}})
    require(value >= 1, "GPT-2 configuration: {} must be at least 1, got {}", name, value);
  require(n_embd % n_head == 0, "GPT-2 configuration: n_embd {} does not divide by n_head {}", n_embd, n_head);
  const std::vector<std::string> activations{"gelu_new", "gelu", "relu", "tanh", "gelu_pytorch_tanh"};
  bool known = false;
  for (const auto& name : activations) known = known || name == activation_function;
  require(known, "GPT-2 configuration: unknown activation_function {}{}", activation_function,
          suggest_name(activation_function, activations));
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{
           {"resid_pdrop", resid_pdrop}, {"embd_pdrop", embd_pdrop}, {"attn_pdrop", attn_pdrop}})
    require(value >= 0 && value < 1, "GPT-2 configuration: {} must be in [0, 1), got {}", name, value);
}

GPT2Config GPT2Config::from_json(const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    fail("GPT-2 configuration: {}", error.what());
  }
  require(json.is_object(), "GPT-2 configuration: a JSON object is expected");
  GPT2Config config;
  for_each_key(config, [&](const char* key, auto& value) { read_key(json, key, value); });
  if (json.contains("model_type"))
    require(json["model_type"] == "gpt2", "the configuration is of model_type {}, not \"gpt2\"",
            json["model_type"].dump());
  config.source_json = text;
  config.check();
  return config;
}

GPT2Config GPT2Config::from_file(const std::string& path) {
  std::ifstream in(path);
  require(in.good(), "cannot read the configuration {}", path);
  std::stringstream text;
  text << in.rdbuf();
  try {
    return from_json(text.str());
  } catch (Error& error) {
    throw error.prefix(path + ": ");
  }
}

std::string GPT2Config::to_json() const {
  Json json = source_json.empty() ? Json{{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}}}
                                  : Json::parse(source_json);
  for_each_key(*this, [&](const char* key, const auto& value) {
    // Hugging Face writes null where the inner width is the default.
    if (std::string_view(key) == "n_inner" && n_inner == 0) {
      json[key] = nullptr;
    } else {
      json[key] = value;
    }
  });
  return json.dump(2) + "\n";
}

}  // namespace tessera::nn

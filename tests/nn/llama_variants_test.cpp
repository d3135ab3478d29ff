// SPDX-License-Identifier: Apache-2.0
// Mistral, Qwen2 and Qwen3: what they change in Llama's decoder. Parameter names and counts, biases, norms of heads,
// windows of layers, gradients. Their configurations are tested in llama_variants_config_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/on_ranks.h"
#include "nn/check_gradients.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/models/mistral.h"
#include "tessera/nn/models/qwen.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kVariantVocabulary = 11;

template <class Config>
Config small_variant(std::int64_t layers) {
  Config config = Config::tiny(kVariantVocabulary);
  config.hidden_size = 12;
  config.intermediate_size = 10;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 6;
  config.max_position_embeddings = 9;
  config.initializer_range = 0.3;
  config.dtype = DType::kF64;
  return config;
}
MistralConfig small_mistral(std::int64_t layers, std::int64_t window) {
  auto config = small_variant<MistralConfig>(layers);
  config.sliding_window = window;
  return config;
}
template <class Config>
Config small_qwen(std::vector<std::string> layer_types, std::int64_t window) {
  auto config = small_variant<Config>(static_cast<std::int64_t>(layer_types.size()));
  config.use_sliding_window = true;
  config.sliding_window = window;
  config.layer_types = std::move(layer_types);
  return config;
}

Tensor variant_tokens(const std::vector<std::int32_t>& values, std::int64_t rows = 1) {
  return Tensor::from<std::int32_t>({rows, static_cast<std::int64_t>(values.size()) / rows}, values);
}
Tensor two_variant_rows() { return variant_tokens({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, 2); }

std::vector<std::string> attention_names(const Module& module) {
  std::vector<std::string> out;
  const std::string prefix = "model.layers.0.self_attn.";
  for (const auto& parameter : module.named_parameters()) {
    if (!parameter.name.starts_with(prefix)) continue;
    std::string text = parameter.name.substr(prefix.size());
    for (const auto d : parameter.exported_dims) text += " " + std::to_string(d);
    out.push_back(text);
  }
  return out;
}

TEST(LlamaVariants, ParametersHaveHuggingFacesNamesAndShapes) {
  const FreshRank rank;
  const MistralForCausalLM mistral(small_mistral(1, 3));
  EXPECT_EQ(attention_names(mistral), (std::vector<std::string>{"q_proj.weight 12 12", "k_proj.weight 4 12",
                                                                "v_proj.weight 4 12", "o_proj.weight 12 12"}));
  const Qwen2ForCausalLM qwen2(small_variant<Qwen2Config>(1));
  EXPECT_EQ(attention_names(qwen2),
            (std::vector<std::string>{"q_proj.weight 12 12", "q_proj.bias 12", "k_proj.weight 4 12", "k_proj.bias 4",
                                      "v_proj.weight 4 12", "v_proj.bias 4", "o_proj.weight 12 12"}));
  Qwen3Config config = small_variant<Qwen3Config>(1);
  const Qwen3ForCausalLM qwen3(config);
  EXPECT_EQ(attention_names(qwen3),
            (std::vector<std::string>{"q_proj.weight 60 12", "k_proj.weight 20 12", "v_proj.weight 20 12",
                                      "o_proj.weight 12 60", "q_norm.weight 10", "k_norm.weight 10"}));
  config.attention_bias = true;
  const auto biased = attention_names(Qwen3ForCausalLM(config));
  for (const char* bias : {"q_proj.bias 60", "k_proj.bias 20", "v_proj.bias 20", "o_proj.bias 12"})
    EXPECT_EQ(std::count(biased.begin(), biased.end(), bias), 1) << bias;
}

TEST(LlamaVariants, ClassesHaveHuggingFacesNames) {
  const FreshRank rank;
  MistralForCausalLM mistral(small_mistral(1, 3));
  Qwen2ForCausalLM qwen2(small_variant<Qwen2Config>(1));
  Qwen3ForCausalLM qwen3(small_variant<Qwen3Config>(1));
  const auto names = [](DecoderForCausalLM& model) {
    DecoderLayer& layer = model.model().layers()[0];
    EXPECT_EQ(model.block_class(), layer.class_name());
    return std::vector<std::string_view>{model.class_name(), model.model().class_name(), layer.class_name(),
                                         layer.self_attn().class_name(), model.shape().family};
  };
  EXPECT_EQ(names(mistral), (std::vector<std::string_view>{"MistralForCausalLM", "MistralModel", "MistralDecoderLayer",
                                                           "MistralAttention", "Mistral"}));
  EXPECT_EQ(names(qwen2), (std::vector<std::string_view>{"Qwen2ForCausalLM", "Qwen2Model", "Qwen2DecoderLayer",
                                                         "Qwen2Attention", "Qwen2"}));
  EXPECT_EQ(names(qwen3), (std::vector<std::string_view>{"Qwen3ForCausalLM", "Qwen3Model", "Qwen3DecoderLayer",
                                                         "Qwen3Attention", "Qwen3"}));
}

TEST(LlamaVariants, PublishedSizesHaveTheirParameterCounts) {
  const FreshRank rank;
  EXPECT_EQ(MistralForCausalLM(MistralConfig::mistral_7b()).parameter_count(), 7241732096);
  EXPECT_EQ(MistralForCausalLM(MistralConfig::mistral_7b_v03()).parameter_count(), 7248023552);
  EXPECT_EQ(Qwen2ForCausalLM(Qwen2Config::qwen2_0_5b()).parameter_count(), 494032768);
  EXPECT_EQ(Qwen2ForCausalLM(Qwen2Config::qwen2_1_5b()).parameter_count(), 1543714304);
  EXPECT_EQ(Qwen2ForCausalLM(Qwen2Config::qwen2_7b()).parameter_count(), 7615616512);
  EXPECT_EQ(Qwen3ForCausalLM(Qwen3Config::qwen3_0_6b()).parameter_count(), 596049920);
  EXPECT_EQ(Qwen3ForCausalLM(Qwen3Config::qwen3_8b()).parameter_count(), 8190735360);
  EXPECT_EQ(lazy_counters().executions, 0);
}

TEST(LlamaVariants, GradientsAgreeWithFiniteDifferences) {
  const FreshRank rank;
  const auto check = [](auto& model) {
    expect_gradients([&] { return model(two_variant_rows(), two_variant_rows()); }, model.parameters());
  };
  MistralForCausalLM mistral(small_mistral(1, 3));
  check(mistral);
  auto tied = small_qwen<Qwen2Config>({"full_attention", "sliding_attention"}, 2);
  tied.tie_word_embeddings = true;
  Qwen2ForCausalLM qwen2(tied);
  check(qwen2);
  auto biased = small_qwen<Qwen3Config>({"sliding_attention", "full_attention"}, 2);
  biased.attention_bias = true;
  Qwen3ForCausalLM qwen3(biased);
  check(qwen3);
}

// The last position whose logits depend on the first token.
template <class Model>
std::int64_t last_that_sees_the_first(const typename Model::Config& config) {
  manual_seed(3);
  Model model(config);
  const auto first = model.logits(variant_tokens({1, 2, 3, 4, 5, 6, 7})).template to_vector<double>();
  const auto other = model.logits(variant_tokens({9, 2, 3, 4, 5, 6, 7})).template to_vector<double>();
  std::int64_t last = -1;
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i] != other[i]) last = static_cast<std::int64_t>(i) / kVariantVocabulary;
  return last;
}

TEST(LlamaVariants, APositionSeesTheWindowOfItsLayer) {
  const FreshRank rank;
  EXPECT_EQ(last_that_sees_the_first<MistralForCausalLM>(small_mistral(1, 1)), 0);
  EXPECT_EQ(last_that_sees_the_first<MistralForCausalLM>(small_mistral(1, 3)), 2);
  EXPECT_EQ(last_that_sees_the_first<MistralForCausalLM>(small_mistral(2, 3)), 4);  // two layers of windows
  EXPECT_EQ(last_that_sees_the_first<MistralForCausalLM>(small_mistral(1, 0)), 6);
  const std::string sliding = "sliding_attention";
  EXPECT_EQ(last_that_sees_the_first<Qwen2ForCausalLM>(small_qwen<Qwen2Config>({sliding}, 3)), 2);
  EXPECT_EQ(last_that_sees_the_first<Qwen3ForCausalLM>(small_qwen<Qwen3Config>({sliding, sliding}, 2)), 2);
  EXPECT_EQ(last_that_sees_the_first<Qwen3ForCausalLM>(small_qwen<Qwen3Config>({sliding, "full_attention"}, 2)), 6);
}

// The softmax of a layer without the norm of heads would change with the size of queries and keys.
TEST(Qwen3, EachHeadOfQueriesAndKeysIsNormalized) {
  const FreshRank rank;
  Qwen3Config config = small_variant<Qwen3Config>(1);
  config.rms_norm_eps = 1e-14;
  Qwen3ForCausalLM model(config);
  const auto before = model.logits(two_variant_rows()).to_vector<double>();
  for (auto& parameter : model.named_parameters()) {
    const bool is_query = parameter.name.ends_with("q_proj.weight");
    if (!is_query && !parameter.name.ends_with("k_proj.weight")) continue;
    auto values = parameter.tensor.to_vector<double>();
    // One head of 10 rows of 12 weights: each one has another factor.
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + static_cast<double>(i / 120);
    parameter.tensor.assign(Tensor::from<double>(parameter.tensor.dims(), values));
  }
  const auto after = model.logits(two_variant_rows()).to_vector<double>();
  expect_near(after, before, 1e-9);
}

TEST(Qwen3, TheWeightOfTheNormCounts) {
  const FreshRank rank;
  Qwen3ForCausalLM model(small_variant<Qwen3Config>(1));
  const auto before = model.logits(two_variant_rows()).to_vector<double>();
  for (auto& parameter : model.named_parameters())
    if (parameter.name.ends_with("q_norm.weight")) parameter.tensor.assign(parameter.tensor * 2.0);
  EXPECT_NE(model.logits(two_variant_rows()).to_vector<double>(), before);
}

}  // namespace
}  // namespace tessera::nn

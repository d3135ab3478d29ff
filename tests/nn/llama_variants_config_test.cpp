// SPDX-License-Identifier: Apache-2.0
// The configurations of Mistral, Qwen2 and Qwen3: keys, defaults, windows of layers and errors.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/base/json_object.h"
#include "tessera/nn/models/mistral.h"
#include "tessera/nn/models/qwen.h"
#include "tessera/nn/models/registry.h"

namespace tessera::nn {
namespace {

using Windows = std::vector<std::int64_t>;

template <class Config>
std::string error_in(const std::string& text) {
  return ::tessera::testing::error_of([&] { (void)Config::from_json(text); });
}
template <class Config>
std::string error_of_check(const Config& config) {
  return ::tessera::testing::error_of([&] { config.check(); });
}

TEST(MistralConfigs, DefaultsAreThoseOfHuggingFace) {
  const MistralConfig config = MistralConfig::from_json("{}");
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(config.sliding_window, 4096);
  EXPECT_EQ(config.max_position_embeddings, 4096 * 32);
  EXPECT_EQ(config.head_size(), 128);
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_EQ(MistralConfig::from_json(R"({"num_key_value_heads": null})").groups(), 32);
}

TEST(MistralConfigs, ANullWindowIsNone) {
  EXPECT_EQ(MistralConfig::from_json(R"({"sliding_window": null})").sliding_window, 0);
  const MistralConfig config = MistralConfig::from_json(R"({"sliding_window": 5, "head_dim": 8, "eos_token_id": 2})");
  EXPECT_EQ(config.sliding_window, 5);
  EXPECT_EQ(config.head_size(), 8);
  const MistralConfig back = MistralConfig::from_json(config.to_json());
  EXPECT_EQ(back.sliding_window, 5);
  EXPECT_EQ(back.head_dim, 8);
  EXPECT_NE(config.to_json().find("\"eos_token_id\": 2"), std::string::npos);
  EXPECT_EQ(MistralConfig::from_json(MistralConfig::mistral_7b_v03().to_json()).sliding_window, 0);
}

TEST(MistralConfigs, ErrorsNameTheKey) {
  const std::string head = "Mistral configuration: ";
  EXPECT_EQ(error_in<MistralConfig>(R"({"sliding_window": 0})"),
            head + "sliding_window must be from 1 to 1073741824, got 0");
  EXPECT_EQ(error_in<MistralConfig>(R"({"slidin_window": 7})"),
            head + R"(unknown key "slidin_window"; did you mean "sliding_window"?)");
  EXPECT_EQ(error_in<MistralConfig>(R"({"model_type": "llama"})"),
            head + R"(model_type must be "mistral", got "llama")");
  MistralConfig config = MistralConfig::tiny();
  config.sliding_window = -1;
  EXPECT_EQ(error_of_check(config), head + "sliding_window must not be negative, got -1");
}

TEST(Qwen2Configs, DefaultsAreThoseOfHuggingFace) {
  const Qwen2Config config = Qwen2Config::from_json("{}");
  EXPECT_EQ(config.vocab_size, 151936);
  EXPECT_EQ(config.intermediate_size, 22016);
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_EQ(config.max_position_embeddings, 32768);
  EXPECT_EQ(config.sliding_window, 4096);
  EXPECT_EQ(config.max_window_layers, 28);
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_EQ(config.windows(), Windows(32, 0));
}

TEST(Qwen3Configs, DefaultsAreThoseOfHuggingFace) {
  const Qwen3Config config = Qwen3Config::from_json(R"({"hidden_size": 1000})");
  EXPECT_EQ(config.head_size(), 128);
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.windows(), Windows(32, 0));
}

template <class Config>
Windows windows_in(const std::string& keys) {
  return Config::from_json(R"({"num_hidden_layers": 4, )" + keys + "}").windows();
}

TEST(QwenConfigs, LayersFromMaxWindowLayersOnHaveTheWindow) {
  const std::string used = R"("use_sliding_window": true, "sliding_window": 7, )";
  EXPECT_EQ(windows_in<Qwen2Config>(used + R"("max_window_layers": 3)"), (Windows{0, 0, 0, 7}));
  EXPECT_EQ(windows_in<Qwen3Config>(used + R"("max_window_layers": 1)"), (Windows{0, 7, 7, 7}));
  EXPECT_EQ(windows_in<Qwen2Config>(used + R"("max_window_layers": 4)"), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows_in<Qwen2Config>(R"("sliding_window": 7, "max_window_layers": 0)"), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows_in<Qwen2Config>(R"("use_sliding_window": true, "sliding_window": null, "max_window_layers": 0)"),
            (Windows{0, 0, 0, 0}));
}

TEST(QwenConfigs, LayerTypesReplaceMaxWindowLayers) {
  const std::string used = R"("use_sliding_window": true, "sliding_window": 7, "max_window_layers": 0, )";
  const std::string types =
      R"("layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"])";
  EXPECT_EQ(windows_in<Qwen2Config>(used + types), (Windows{0, 7, 0, 7}));
  EXPECT_EQ(windows_in<Qwen3Config>(used + types), (Windows{0, 7, 0, 7}));
  EXPECT_EQ(windows_in<Qwen3Config>(used + R"("layer_types": null)"), (Windows{7, 7, 7, 7}));
}

// So that --config_overrides num_hidden_layers=2 makes a smaller model of a file of Hugging Face.
TEST(QwenConfigs, LayerTypesOfFurtherLayersAreIgnored) {
  const Qwen2Config config = Qwen2Config::from_json(R"({"num_hidden_layers": 2, "use_sliding_window": true,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})");
  EXPECT_EQ(config.windows(), (Windows{4096, 0}));
  EXPECT_EQ(Qwen2Config::from_json(config.to_json()).layer_types,
            (std::vector<std::string>{"sliding_attention", "full_attention"}));
}

TEST(QwenConfigs, KeysAreReadWrittenAndKept) {
  const Qwen3Config config = Qwen3Config::from_json(R"({"model_type": "qwen3", "num_hidden_layers": 2, "head_dim": 6,
      "attention_bias": true, "use_sliding_window": true, "sliding_window": 3, "max_window_layers": 1,
      "tie_word_embeddings": true, "layer_types": ["full_attention", "sliding_attention"], "bos_token_id": 9})");
  const Qwen3Config back = Qwen3Config::from_json(config.to_json());
  EXPECT_EQ(back.head_dim, 6);
  EXPECT_TRUE(back.attention_bias && back.tie_word_embeddings && back.use_sliding_window);
  EXPECT_EQ(back.max_window_layers, 1);
  EXPECT_EQ(back.windows(), (Windows{0, 3}));
  EXPECT_EQ(back.to_json(), config.to_json());
  EXPECT_NE(config.to_json().find("\"bos_token_id\": 9"), std::string::npos);
  const Qwen2Config published = Qwen2Config::qwen2_0_5b();
  const Qwen2Config read = Qwen2Config::from_json(published.to_json());
  EXPECT_EQ(read.rope.theta, 1000000);
  EXPECT_EQ(read.num_key_value_heads, 2);
  EXPECT_EQ(read.windows(), Windows(24, 0));
}

// Hugging Face's Qwen2 computes the size of heads if the key is missing, but not if it is null.
TEST(QwenConfigs, ANewFileHasNoNullHeadDim) {
  EXPECT_FALSE(JsonObject::parse(Qwen2Config::tiny().to_json()).has("head_dim"));
  Qwen2Config config = Qwen2Config::from_json(R"({"hidden_size": 64, "num_attention_heads": 32, "head_dim": 6})");
  config.head_dim = 0;
  EXPECT_EQ(Qwen2Config::from_json(config.to_json()).head_dim, 2);
}

TEST(QwenConfigs, ErrorsNameTheKey) {
  const std::string head = "Qwen2 configuration: ";
  EXPECT_EQ(error_in<Qwen2Config>(R"({"num_hidden_layers": 3, "layer_types": ["full_attention", "full_attention"]})"),
            head + "layer_types must have one entry for each of 3 layers, got 2");
  EXPECT_EQ(error_in<Qwen2Config>(R"({"num_hidden_layers": 1, "layer_types": ["sliding_attentoin"]})"),
            head + R"(unknown layer type "sliding_attentoin"; did you mean "sliding_attention"?)");
  const std::string no_window =
      "layer_types has sliding_attention, which needs use_sliding_window true and a sliding_window";
  EXPECT_EQ(error_in<Qwen2Config>(R"({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]})"),
            head + no_window);
  EXPECT_EQ(error_in<Qwen3Config>(R"({"num_hidden_layers": 1, "layer_types": ["sliding_attention"],
                                      "use_sliding_window": true, "sliding_window": null})"),
            "Qwen3 configuration: " + no_window);
  EXPECT_EQ(error_in<Qwen2Config>(R"({"num_hidden_layers": -2, "layer_types": ["full_attention"]})"),
            head + "num_hidden_layers must be from 1 to 10000, got -2");
  EXPECT_EQ(error_in<Qwen2Config>(R"({"num_attention_heads": 14, "hidden_size": 28})"),
            head + "num_attention_heads 14 is not a multiple of num_key_value_heads 32");
  EXPECT_EQ(error_in<Qwen2Config>(R"({"use_mrope": true})"),
            head + "use_mrope true is not supported; it must be false");
  EXPECT_EQ(error_in<Qwen2Config>(R"({"attention_bias": true})"),
            head + R"(unknown key "attention_bias"; the keys are those of Hugging Face's Qwen2Config)");
  Qwen3Config config = Qwen3Config::tiny();
  config.head_dim = 0;
  EXPECT_EQ(error_of_check(config), "Qwen3 configuration: head_dim must be from 1 to 1073741824, got 0");
}

TEST(ModelTable, HasTheVariantsOfLlama) {
  const FreshRank rank;
  const auto class_of = [](const std::string& type, const std::string& architecture) {
    const auto model = make_causal_lm(R"({"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": 5, "model_type": ")" +
                                          type + R"(", "architectures": [")" + architecture + R"("]})",
                                      "c.json");
    return std::string(model->class_name());
  };
  EXPECT_EQ(class_of("mistral", "MistralForCausalLM"), "MistralForCausalLM");
  EXPECT_EQ(class_of("qwen2", "Qwen2ForCausalLM"), "Qwen2ForCausalLM");
  EXPECT_EQ(class_of("qwen3", "Qwen3Model"), "Qwen3ForCausalLM");
}

TEST(ModelTable, OtherModelsAreNamedWithTheProgramsThatTrainThem) {
  const FreshRank rank;
  const auto error = [](const std::string& config) {
    return ::tessera::testing::error_of([&] { (void)make_causal_lm(config, "c.json"); });
  };
  EXPECT_EQ(error(R"({"model_type": "bert", "vocab_size": 5, "hidden_size": 8, "num_hidden_layers": 1,
                      "num_attention_heads": 2, "intermediate_size": 8})"),
            "c.json: BertForMaskedLM is not a causal language model, but an encoder; run_mlm and run_classification "
            "train it");
  EXPECT_EQ(error(R"({"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 2]})"),
            "c.json: ResNetForImageClassification is not a causal language model, but a classifier of images; "
            "train_imagenet trains it");
}

}  // namespace
}  // namespace tessera::nn

// SPDX-License-Identifier: Apache-2.0
// Llama and Mixtral: parameter names and counts, configurations, gradients, and the table of models.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "nn/check_gradients.h"
#include "tessera/nn/models/llama.h"
#include "tessera/nn/models/mixtral.h"
#include "tessera/nn/models/registry.h"

namespace tessera::nn {
namespace {

LlamaConfig tiny_llama() {
  LlamaConfig config = LlamaConfig::tiny(11);
  config.hidden_size = 12;
  config.intermediate_size = 10;
  config.num_attention_heads = 6;
  config.max_position_embeddings = 9;
  config.initializer_range = 0.3;
  config.dtype = DType::kF64;
  return config;
}

MixtralConfig tiny_mixtral() {
  MixtralConfig config = MixtralConfig::tiny(11);
  config.hidden_size = 8;
  config.intermediate_size = 5;
  config.num_local_experts = 3;
  config.max_position_embeddings = 9;
  config.initializer_range = 0.3;
  config.output_router_logits = true;
  config.router_aux_loss_coef = 0.2;
  config.dtype = DType::kF64;
  return config;
}

Tensor token_rows(const std::vector<std::int32_t>& values, std::int64_t rows) {
  return Tensor::from<std::int32_t>({rows, static_cast<std::int64_t>(values.size()) / rows}, values);
}
Tensor some_tokens() { return token_rows({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, 2); }

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> out;
  for (const auto& parameter : module.named_parameters()) {
    std::string text = parameter.name;
    for (const auto d : parameter.exported_dims) text += " " + std::to_string(d);
    out.push_back(text);
  }
  return out;
}

TEST(Llama, ParametersHaveHuggingFacesNamesAndShapes) {
  const FreshRank rank;
  LlamaConfig config = tiny_llama();
  config.num_hidden_layers = 1;
  const LlamaForCausalLM model(config);
  EXPECT_EQ(names_of(model),
            (std::vector<std::string>{
                "model.embed_tokens.weight 11 12", "model.layers.0.self_attn.q_proj.weight 12 12",
                "model.layers.0.self_attn.k_proj.weight 4 12", "model.layers.0.self_attn.v_proj.weight 4 12",
                "model.layers.0.self_attn.o_proj.weight 12 12", "model.layers.0.mlp.gate_proj.weight 10 12",
                "model.layers.0.mlp.up_proj.weight 10 12", "model.layers.0.mlp.down_proj.weight 12 10",
                "model.layers.0.input_layernorm.weight 12", "model.layers.0.post_attention_layernorm.weight 12",
                "model.norm.weight 12", "lm_head.weight 11 12"}));
}

TEST(Mixtral, ParametersHaveHuggingFacesNamesAndShapes) {
  const FreshRank rank;
  const auto names = names_of(MixtralForCausalLM(tiny_mixtral()));
  EXPECT_EQ(names[5], "model.layers.0.block_sparse_moe.gate.weight 3 8");
  EXPECT_EQ(names[6], "model.layers.0.block_sparse_moe.experts.*.w1.weight 3 5 8");
  EXPECT_EQ(names[7], "model.layers.0.block_sparse_moe.experts.*.w2.weight 3 8 5");
  EXPECT_EQ(names[8], "model.layers.0.block_sparse_moe.experts.*.w3.weight 3 5 8");
}

TEST(Llama, PublishedSizesHaveTheirParameterCounts) {
  const FreshRank rank;
  EXPECT_EQ(LlamaForCausalLM(LlamaConfig::llama2_7b()).parameter_count(), 6738415616);
  EXPECT_EQ(LlamaForCausalLM(LlamaConfig::llama3_8b()).parameter_count(), 8030261248);
  EXPECT_EQ(LlamaForCausalLM(LlamaConfig::llama32_1b()).parameter_count(), 1235814400);
  EXPECT_EQ(LlamaForCausalLM(LlamaConfig::tiny_llama_1b()).parameter_count(), 1100048384);
  EXPECT_EQ(MixtralForCausalLM(MixtralConfig::mixtral_8x7b()).parameter_count(), 46702792704);
  EXPECT_EQ(lazy_counters().executions, 0);
}

TEST(Llama, GradientsAgreeWithFiniteDifferences) {
  const FreshRank rank;
  for (const bool tied : {false, true}) {
    LlamaConfig config = tiny_llama();
    config.tie_word_embeddings = tied;
    config.attention_bias = config.mlp_bias = !tied;
    LlamaForCausalLM model(config);
    expect_gradients([&] { return model(some_tokens(), some_tokens()); }, model.parameters());
  }
}

TEST(Mixtral, GradientsAgreeWithFiniteDifferences) {
  const FreshRank rank;
  MixtralConfig config = tiny_mixtral();
  config.sliding_window = 3;
  MixtralForCausalLM model(config);
  expect_gradients([&] { return model(some_tokens(), some_tokens()); }, model.parameters());
}

TEST(Mixtral, TheLossContainsTheAuxiliaryLosses) {
  const FreshRank rank;
  MixtralConfig config = tiny_mixtral();
  config.router_z_loss_coef = 0.5;
  MixtralForCausalLM model(config);
  const CausalLossParts parts = model.loss_parts(some_tokens(), some_tokens());
  const auto routing = model.model()(some_tokens()).routing;
  const double auxiliary = 0.2 * load_balancing_loss(routing).item() + 0.5 * router_z_loss(routing).item();
  EXPECT_NEAR(parts.auxiliary.item(), auxiliary, 1e-12);
  EXPECT_NEAR(model(some_tokens(), some_tokens()).item(), parts.sum.item() / parts.count.item() + auxiliary, 1e-12);
}

TEST(Decoders, PositionsDoNotDependOnLaterOnes) {
  const FreshRank rank;
  LlamaForCausalLM model(tiny_llama());
  const auto first = model.logits(token_rows({1, 2, 3, 4, 5, 6}, 1)).to_vector<double>();
  const auto second = model.logits(token_rows({1, 2, 3, 9, 8, 7}, 1)).to_vector<double>();
  for (std::size_t i = 0; i < 3 * 11; ++i) EXPECT_EQ(first[i], second[i]);
  EXPECT_NE(first[3 * 11], second[3 * 11]);
}

// Padding on the left, with positions that begin after it, does not change the logits of the text.
TEST(Decoders, PaddingAndPositionsAreInputs) {
  const FreshRank rank;
  LlamaForCausalLM model(tiny_llama());
  const auto plain = model.logits(token_rows({4, 5, 6}, 1)).to_vector<double>();
  const auto padded = model
                          .logits(token_rows({0, 0, 4, 5, 6}, 1), {.attention_mask = token_rows({0, 0, 1, 1, 1}, 1),
                                                                   .position_ids = token_rows({0, 0, 0, 1, 2}, 1)})
                          .to_vector<double>();
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(padded[2 * 11 + i], plain[i], 1e-12);
}

// A Llama with 8 positions, and weights 0.9 sin(1.7 i + k), where k is the number of the parameter.
std::vector<double> last_logits(const std::string& rope, std::int64_t first, std::int64_t count) {
  const LlamaConfig config = LlamaConfig::from_json(R"({"vocab_size": 11, "hidden_size": 16, "intermediate_size": 10,
      "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8,
      "rms_norm_eps": 1e-6, "rope_parameters": )" + rope +
                                                    "}");
  LlamaConfig wide = config;
  wide.dtype = DType::kF64;
  LlamaForCausalLM model(wide);
  double k = 0;
  for (Tensor parameter : model.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(parameter.type().element_count()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.9 * std::sin(1.7 * static_cast<double>(i) + k);
    parameter.assign(Tensor::from<double>(parameter.dims(), values));
    ++k;
  }
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1};
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < count; ++i) positions.push_back(static_cast<std::int32_t>(first + i));
  CausalInputs inputs;
  if (first > 0) inputs.position_ids = token_rows(positions, 1);
  const Tensor logits = model.logits(token_rows({tokens.begin(), tokens.begin() + count}, 1), inputs);
  return logits.select(0, 0).select(0, count - 1).slice(0, 0, 3).to_vector<double>();
}

// The numbers are those of transformers 5.24.
TEST(Decoders, TextsMayBeLongerThanMaxPositionEmbeddings) {
  const FreshRank rank;
  const std::string plain = R"({"rope_type": "default", "rope_theta": 10000.0})";
  const std::string dynamic = R"({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0})";
  expect_near(last_logits(plain, 0, 12), {0.544121851, -0.429374897, -0.135083825}, 2e-6);
  expect_near(last_logits(dynamic, 0, 12), {0.54142402, -0.432680256, -0.12923719}, 2e-6);
  expect_near(last_logits(plain, 12, 8), {-0.289131417, 0.512410393, -0.199009219}, 2e-6);
  expect_near(last_logits(dynamic, 12, 8), {-0.304541747, 0.522674901, -0.19337723}, 2e-6);
  expect_near(last_logits(dynamic, 0, 8), last_logits(plain, 0, 8), 1e-12);
}

TEST(Decoders, ASlidingWindowHidesEarlierTokens) {
  const FreshRank rank;
  MixtralConfig config = tiny_mixtral();
  config.num_hidden_layers = 1;
  config.sliding_window = 2;
  MixtralForCausalLM model(config);
  const auto first = model.logits(token_rows({1, 2, 3, 4}, 1)).to_vector<double>();
  const auto second = model.logits(token_rows({9, 2, 3, 4}, 1)).to_vector<double>();
  EXPECT_NE(first[11], second[11]);
  for (std::size_t i = 2 * 11; i < 4 * 11; ++i) EXPECT_EQ(first[i], second[i]);
}

TEST(Decoders, NamedInputsAreChecked) {
  const FreshRank rank;
  LlamaForCausalLM model(tiny_llama());
  const ModelOutput out = model.run({{"input_ids", some_tokens()}, {"labels", some_tokens()}});
  EXPECT_NEAR(out.loss.item(), model(some_tokens(), some_tokens()).item(), 1e-14);
  EXPECT_EQ(out.logits.dims(), (Dims{2, 6, 11}));
  const auto error = [&](const ModelInputs& inputs) {
    try {
      (void)model.run(inputs);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error({}), "LlamaForCausalLM needs the input input_ids");
  EXPECT_EQ(error({{"input_ids", some_tokens()}, {"label", some_tokens()}}),
            "LlamaForCausalLM has no input label; did you mean \"labels\"?");
}

// ---- configurations -----------------------------------------------------------------------------------------------------

TEST(LlamaConfigs, KeysAreReadWrittenAndKept) {
  const LlamaConfig config = LlamaConfig::from_json(R"({"model_type": "llama", "hidden_size": 24,
      "num_attention_heads": 4, "num_key_value_heads": null, "head_dim": 8, "pad_token_id": 3, "eos_token_id": [1, 2],
      "rope_theta": 77.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "pretraining_tp": 1})");
  EXPECT_EQ(config.groups(), 4);
  EXPECT_EQ(config.head_size(), 8);
  EXPECT_EQ(config.pad_token_id, 3);
  EXPECT_EQ(config.rope.theta, 77);
  EXPECT_EQ(config.rope.factor, 2);
  const std::string text = config.to_json();
  for (const char* kept : {"\"eos_token_id\": [", "\"pretraining_tp\": 1", "\"rope_theta\": 77.0", "\"linear\"",
                           "\"num_key_value_heads\": null", "\"pad_token_id\": 3"})
    EXPECT_NE(text.find(kept), std::string::npos) << kept << " in " << text;
  EXPECT_EQ(text.find("rope_parameters"), std::string::npos);
  LlamaConfig changed = config;
  changed.rope.factor = 4;
  EXPECT_EQ(LlamaConfig::from_json(changed.to_json()).rope, changed.rope);
}

TEST(LlamaConfigs, ANewFileReadsBack) {
  const LlamaConfig config = LlamaConfig::llama32_1b();
  const LlamaConfig back = LlamaConfig::from_json(config.to_json());
  EXPECT_EQ(back.rope, config.rope);
  EXPECT_EQ(back.head_dim, 64);
  EXPECT_TRUE(back.tie_word_embeddings);
  EXPECT_EQ(back.to_json(), LlamaConfig::from_json(back.to_json()).to_json());
}

TEST(LlamaConfigs, ErrorsNameTheKey) {
  const auto error = [](const std::string& text) {
    try {
      LlamaConfig::from_json(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string head = "Llama configuration: ";
  EXPECT_EQ(error(R"({"hidden_sise": 8})"), head + R"(unknown key "hidden_sise"; did you mean "hidden_size"?)");
  EXPECT_EQ(error(R"({"num_attention_heads": 6, "hidden_size": 12, "num_key_value_heads": 4})"),
            head + "num_attention_heads 6 is not a multiple of num_key_value_heads 4");
  EXPECT_EQ(error(R"({"num_attention_heads": 4, "hidden_size": 12})"),
            head + "heads of 3 have no rotary positions; the size must be even");
  EXPECT_EQ(error(R"({"hidden_act": "silo"})"), head + R"(unknown hidden_act "silo"; did you mean "silu"?)");
}

TEST(MixtralConfigs, KeysAreReadAndWritten) {
  const MixtralConfig config = MixtralConfig::from_json(R"({"num_local_experts": 5, "num_experts_per_tok": 3,
      "sliding_window": 16, "expert_capacity_factor": 1.5, "router_jitter_noise": 0.1})");
  EXPECT_EQ(config.sliding_window, 16);
  EXPECT_EQ(config.rope.theta, 1000000);
  const MixtralConfig back = MixtralConfig::from_json(config.to_json());
  EXPECT_EQ(back.num_local_experts, 5);
  EXPECT_EQ(back.expert_capacity_factor, 1.5);
  EXPECT_THROW(MixtralConfig::from_json(R"({"num_experts_per_tok": 9})"), Error);
}

TEST(ModelTable, TheConfigurationNamesTheModel) {
  const FreshRank rank;
  const auto class_of = [](const std::string& text, const std::string& fallback = "") {
    try {
      return std::string(make_model(text, "c.json", DType::kF32, fallback)->class_name());
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const std::string sizes = R"("num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 5)";
  EXPECT_EQ(class_of(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", )" + sizes + "}"),
            "LlamaForCausalLM");
  EXPECT_EQ(class_of(R"({"model_type": "mixtral", "num_key_value_heads": 1, )" + sizes + "}"), "MixtralForCausalLM");
  EXPECT_EQ(class_of(R"({"architectures": ["LlamaModel"], "model_type": "llama", )" + sizes + "}"), "LlamaForCausalLM");
  EXPECT_EQ(class_of(R"({"n_layer": 1, "n_embd": 4, "n_head": 2})", "gpt2"), "GPT2LMHeadModel");
  EXPECT_EQ(class_of(R"({"model_type": "lama"})"),
            "c.json: there is no model of model_type \"lama\"; did you mean \"llama\"?");
}

}  // namespace
}  // namespace tessera::nn

// SPDX-License-Identifier: Apache-2.0
// GPT-2: parameter names and counts, configuration, gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/models/gpt2.h"

namespace tessera::nn {
namespace {

GPT2Config tiny() {
  GPT2Config config;
  config.vocab_size = 11;
  config.n_positions = 6;
  config.n_embd = 6;
  config.n_layer = 2;
  config.n_head = 3;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0;
  config.dtype = DType::kF64;
  config.initializer_range = 0.3;
  return config;
}

Tensor tokens_of(const std::vector<std::int32_t>& values, std::int64_t rows) {
  return Tensor::from<std::int32_t>({rows, static_cast<std::int64_t>(values.size()) / rows}, values);
}

TEST(GPT2, ParametersHaveHuggingFacesNamesAndShapes) {
  const FreshRank rank;
  const GPT2LMHeadModel model(tiny());
  std::vector<std::string> names;
  for (const auto& parameter : model.named_parameters()) {
    std::string dims;
    for (const auto d : parameter.exported_dims) dims += " " + std::to_string(d);
    names.push_back(parameter.name + dims);
  }
  const std::vector<std::string> start{"transformer.wte.weight 11 6",
                                       "transformer.wpe.weight 6 6",
                                       "transformer.h.0.ln_1.weight 6",
                                       "transformer.h.0.ln_1.bias 6",
                                       "transformer.h.0.attn.c_attn.weight 6 18",
                                       "transformer.h.0.attn.c_attn.bias 18",
                                       "transformer.h.0.attn.c_proj.weight 6 6",
                                       "transformer.h.0.attn.c_proj.bias 6",
                                       "transformer.h.0.ln_2.weight 6",
                                       "transformer.h.0.ln_2.bias 6",
                                       "transformer.h.0.mlp.c_fc.weight 6 24",
                                       "transformer.h.0.mlp.c_fc.bias 24",
                                       "transformer.h.0.mlp.c_proj.weight 24 6",
                                       "transformer.h.0.mlp.c_proj.bias 6"};
  ASSERT_GE(names.size(), start.size());
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(start.size())), start);
  EXPECT_EQ(names.back(), "transformer.ln_f.bias 6");
  EXPECT_EQ(model.all_parameter_paths().back().name, "lm_head.weight");
}

TEST(GPT2, TheSourcesConfigurationHas2196691968Parameters) {
  const FreshRank rank;
  const GPT2Config config = GPT2Config::from_json(
      R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "n_embd": 3072, "n_head": 24, "n_layer": 18,
          "n_positions": 1024, "vocab_size": 50257, "model_type": "gpt2", "summary_type": "cls_index",
          "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}})");
  const GPT2LMHeadModel model(config);
  EXPECT_EQ(model.parameter_count(), 2196691968);
  EXPECT_EQ(lazy_counters().executions, 0);
}

TEST(GPT2, UnusedKeysAreKept) {
  const std::string text =
      GPT2Config::from_json(R"({"n_embd": 8, "n_head": 2, "summary_type": "cls_index", "_name_or_path": "x"})")
          .to_json();
  EXPECT_NE(text.find("\"summary_type\": \"cls_index\""), std::string::npos);
  EXPECT_NE(text.find("\"n_embd\": 8"), std::string::npos);
}

TEST(GPT2, ConfigurationErrorsNameTheKey) {
  const auto message = [](const std::string& json) {
    try {
      GPT2Config::from_json(json);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto expect = [&](const std::string& json, const std::string& error) {
    EXPECT_EQ(message(json), "GPT-2 configuration: " + error) << json;
  };
  expect(R"({"n_embd": 10, "n_head": 3})", "n_embd 10 is not a multiple of n_head 3");
  expect(R"({"n_embd": "wide"})", R"(n_embd must be an integer, got "wide")");
  expect(R"({"n_embd": 12.0})", "n_embd must be an integer, got 12.0");
  expect(R"({"n_layer": true})", "n_layer must be an integer, got true");
  expect(R"({"n_head": 0})", "n_head must be from 1 to 1073741824, got 0");
  expect(R"({"n_layer": 1000000})", "n_layer must be from 1 to 10000, got 1000000");
  expect(R"({"vocab_size": 5000000000})", "vocab_size must be from 1 to 1073741824, got 5000000000");
  expect(R"({"attn_pdrop": 1})", "attn_pdrop must be in [0, 1), got 1");
  expect(R"({"n_emdb": 8})", R"(unknown key "n_emdb"; did you mean "n_embd"?)");
  expect(R"({"rotary_percentage": 8})",
         R"(unknown key "rotary_percentage"; the keys are those of Hugging Face's GPT2Config)");
  expect(R"({"activation_function": "gelu_nev"})",
         R"(unknown activation_function "gelu_nev"; did you mean "gelu_new"?)");
  expect(R"({"model_type": "llama"})", R"(model_type must be "gpt2", got "llama")");
  expect(R"({"add_cross_attention": true})", "add_cross_attention true is not supported; it must be false");
  expect(R"([1])", "must hold a JSON object, got [1]");
  expect("{\n \"n_embd\" 8}", "not JSON at line 2, column 11: syntax error");
}

TEST(GPT2, LossOfAnUntrainedModelIsNearTheUniformOne) {
  const FreshRank rank;
  GPT2Config config = tiny();
  config.initializer_range = 0.02;
  GPT2LMHeadModel model(config);
  const Tensor tokens = tokens_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, 2);
  EXPECT_NEAR(model(tokens, tokens).item(), std::log(11.0), 0.05);
}

TEST(GPT2, PositionsDoNotDependOnLaterOnes) {
  const FreshRank rank;
  GPT2LMHeadModel model(tiny());
  const auto first = model.logits(tokens_of({1, 2, 3, 4, 5, 6}, 1)).to_vector<double>();
  const auto second = model.logits(tokens_of({1, 2, 3, 9, 8, 7}, 1)).to_vector<double>();
  for (std::size_t i = 0; i < 3 * 11; ++i) EXPECT_EQ(first[i], second[i]);
  EXPECT_NE(first[3 * 11], second[3 * 11]);
}

TEST(GPT2, IgnoredLabelsDoNotCount) {
  const FreshRank rank;
  GPT2LMHeadModel model(tiny());
  const Tensor one = tokens_of({1, 2, 3, 4, 5, 6}, 1);
  const Tensor two = tokens_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, 2);
  const Tensor labels = tokens_of({1, 2, 3, 4, 5, 6, -100, -100, -100, -100, -100, -100}, 2);
  EXPECT_NEAR(model(one, one).item(), model(two, labels).item(), 1e-14);
}

// Compares with central differences for a few elements of every parameter.
TEST(GPT2, GradientsAgreeWithFiniteDifferences) {
  const FreshRank rank;
  GPT2LMHeadModel model(tiny());
  const Tensor tokens = tokens_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, 2);
  model(tokens, tokens).backward();
  mark_step();
  for (const auto& parameter : model.named_parameters()) {
    Tensor tensor = parameter.tensor;
    const auto gradient = tensor.grad().to_vector<double>();
    const Literal before = tensor.to_host();
    const std::size_t i = (7 * gradient.size()) / 11;
    const auto loss_at = [&](double shift) {
      Literal moved = before;
      moved.mutable_data<double>()[i] += shift;
      tensor.assign(Tensor::from_host(moved));
      const double loss = model(tokens, tokens).item();
      mark_step();
      return loss;
    };
    const double step = 1e-5;
    const double numeric = (loss_at(step) - loss_at(-step)) / (2 * step);
    loss_at(0);
    EXPECT_NEAR(gradient[i], numeric, 1e-8 + 1e-6 * std::fabs(numeric)) << parameter.name;
  }
}

// Values of transformers 5.24 for weights 0.9 sin(1.7 i + k), where k is the number of the parameter.
struct ScaleCase {
  bool by_root, by_layer;
  std::vector<double> plain, masked;
};
const std::vector<ScaleCase> kScales{{true,
                                      false,
                                      {-0.65816172693714, -1.0928184866406, 2.2192871447526},
                                      {-0.64079807223261, -1.1474231843139, 2.2799280100227}},
                                     {false,
                                      false,
                                      {-0.65794590405183, -1.0934177608241, 2.2199274037982},
                                      {-0.64057100122923, -1.1482478797893, 2.2808790423223}},
                                     {true,
                                      true,
                                      {-0.65823689904716, -1.0926101286678, 2.219064670976},
                                      {-0.64095566067434, -1.1468530439427, 2.2792711350966}},
                                     {false,
                                      true,
                                      {-0.65805403992702, -1.0931173024879, 2.2196063255346},
                                      {-0.64080188234041, -1.1474093802901, 2.2799121006505}}};

void set_sines(const Module& module) {
  double k = 0;
  for (Tensor parameter : module.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(parameter.type().element_count()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.9 * std::sin(1.7 * static_cast<double>(i) + k);
    parameter.assign(Tensor::from<double>(parameter.dims(), values));
    ++k;
  }
}
void expect_last(const Tensor& logits, std::int64_t row, const std::vector<double>& expected) {
  const auto got = logits.select(0, row).select(0, logits.dim(1) - 1).to_vector<double>();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-11) << row << " " << i;
}

TEST(GPT2, MasksPositionsAndScalesAreThoseOfHuggingFace) {
  const FreshRank rank;
  const Tensor tokens = tokens_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2);
  const CausalInputs inputs{.attention_mask = tokens_of({0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, 2),
                            .position_ids = tokens_of({0, 0, 0, 1, 2, 0, 1, 2, 3, 4}, 2)};
  for (const ScaleCase& one : kScales) {
    GPT2Config config = tiny();
    config.scale_attn_weights = one.by_root;
    config.scale_attn_by_inverse_layer_idx = one.by_layer;
    const GPT2Config back = GPT2Config::from_json(config.to_json());
    EXPECT_EQ(back.scale_attn_weights, one.by_root);
    EXPECT_EQ(back.scale_attn_by_inverse_layer_idx, one.by_layer);
    GPT2LMHeadModel model(config);
    set_sines(model);
    expect_last(model.logits(tokens), 1, one.plain);
    expect_last(model.logits(tokens, inputs), 0, one.masked);
    expect_last(model.logits(tokens, inputs), 1, one.plain);
  }
}

TEST(GPT2, AStepHasTheScaleOfItsLayer) {
  const FreshRank rank;
  GPT2Config config = tiny();
  config.scale_attn_weights = false;
  config.scale_attn_by_inverse_layer_idx = true;
  GPT2LMHeadModel model(config);
  set_sines(model);
  KeyValueCache cache;
  for (auto* side : {&cache.keys, &cache.values})
    for (int i = 0; i < 2; ++i) side->push_back(Tensor::zeros(Type::array(DType::kF64, {1, 5, 3, 2})));
  const StepPlace place{.start = Tensor::from<std::int32_t>({}, {0}), .positions = tokens_of({0, 1, 2, 3, 4}, 1)};
  const auto got = model.step(tokens_of({6, 7, 8, 9, 10}, 1), place, cache).to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], kScales.back().plain[i], 1e-11);
}

TEST(GPT2, AMaskOfOnesAndPositionsOfAllTextsHaveNoEffect) {
  const FreshRank rank;
  GPT2LMHeadModel model(tiny());
  const Tensor tokens = tokens_of({1, 2, 3, 4, 5, 6, 7, 8}, 2);
  const auto plain = model.logits(tokens).to_vector<double>();
  const auto given = model
                         .run({{"input_ids", tokens},
                               {"attention_mask", tokens_of({1, 1, 1, 1, 1, 1, 1, 1}, 2)},
                               {"position_ids", tokens_of({0, 1, 2, 3}, 1)}})
                         .logits.to_vector<double>();
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(given[i], plain[i], 1e-13);
  const auto message = [&](const CausalInputs& inputs) {
    try {
      (void)model.logits(tokens, inputs);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message({.attention_mask = tokens_of({1, 1, 1, 1}, 1)})
                .find("attention_mask needs the shape of the tokens s32[2,4], got s32[1,4]"),
            std::string::npos);
  EXPECT_NE(message({.position_ids = tokens_of({1, 1}, 1)})
                .find("position_ids needs integers of the shape of the tokens s32[2,4], got s32[1,2]"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::nn

// SPDX-License-Identifier: Apache-2.0
// Layers equal their definitions, computed here element by element, and their gradients equal finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "frontend/on_ranks.h"
#include "nn/check_gradients.h"
#include "tessera/nn/layers.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::nn {
namespace {

constexpr DType kF64 = DType::kF64;

std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }
std::vector<Tensor> with_parameters(const Module& module, Tensor x) {
  std::vector<Tensor> out = module.parameters();
  out.push_back(std::move(x));
  return out;
}
TEST(Embedding, ThePaddingRowIsZeroAndHasNoGradient) {
  const FreshRank rank;
  Embedding table(5, 3, {.padding_idx = -2, .dtype = kF64});
  EXPECT_EQ(table.padding_idx(), 3);
  const auto rows = values(table.weight());
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(rows[i] == 0, i / 3 == 3) << i;
  sum(table(Tensor::from<std::int32_t>({4}, {3, 1, 3, 0}))).backward();
  mark_step();
  EXPECT_EQ(values(table.weight().grad()), (std::vector<double>{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(LayerNorm, WorksWithoutBiasAndWithoutParameters) {
  const FreshRank rank;
  const Tensor x = numbers({3, 5});
  LayerNorm plain(5, {.elementwise_affine = false});
  LayerNorm with_weight(5, {.bias = false, .dtype = kF64});
  LayerNorm complete(5, 1e-5, kF64);
  EXPECT_TRUE(plain.parameters().empty());
  EXPECT_EQ(with_weight.parameters().size(), 1U);
  expect_near(values(plain(x)), values(complete(x)));
  expect_near(values(with_weight(x)), values(complete(x)));
  expect_gradients([&] { return weighted_sum(with_weight(x)); }, with_parameters(with_weight, x));
  EXPECT_THROW((void)plain(numbers({3, 4})), Error);
}

TEST(RMSNorm, DividesByTheRootOfTheMeanSquare) {
  const FreshRank rank;
  RMSNorm norm(5, {.epsilon = 0.1, .dtype = kF64});
  const Tensor x = numbers({3, 5});
  const auto in = values(x);
  std::vector<double> expected;
  for (std::size_t r = 0; r < 3; ++r) {
    double power = 0;
    for (std::size_t i = 0; i < 5; ++i) power += in[r * 5 + i] * in[r * 5 + i] / 5;
    for (std::size_t i = 0; i < 5; ++i) expected.push_back(in[r * 5 + i] / std::sqrt(power + 0.1));
  }
  expect_near(values(norm(x)), expected);
  expect_gradients([&] { return weighted_sum(norm(x)); }, with_parameters(norm, x));
}

TEST(GroupNorm, NormalizesTheChannelsOfAGroupTogether) {
  const FreshRank rank;
  GroupNorm norm(3, 6, {.epsilon = 0.01, .dtype = kF64});
  const Tensor x = numbers({2, 6, 5});
  const auto in = values(x);
  std::vector<double> expected(in.size());
  for (std::size_t group = 0; group < 6; ++group) {
    double average = 0, variance = 0;
    for (std::size_t i = 0; i < 10; ++i) average += in[group * 10 + i] / 10;
    for (std::size_t i = 0; i < 10; ++i) variance += std::pow(in[group * 10 + i] - average, 2) / 10;
    for (std::size_t i = 0; i < 10; ++i)
      expected[group * 10 + i] = (in[group * 10 + i] - average) / std::sqrt(variance + 0.01);
  }
  expect_near(values(norm(x)), expected);
  expect_gradients([&] { return weighted_sum(norm(x)); }, with_parameters(norm, x));
  EXPECT_THROW(GroupNorm(4, 6), Error);
}

TEST(Activations, EqualTheirDefinitions) {
  const FreshRank rank;
  const Tensor x = numbers({7});
  const auto in = values(x);
  const auto expect = [&](Tensor y, double (*definition)(double)) {
    std::vector<double> expected;
    for (const double v : in) expected.push_back(definition(v));
    expect_near(values(y), expected, 1e-9);
  };
  SiLU silu;
  Tanh tanh;
  ReLU relu;
  GELU exact(false), approximate(true);
  expect(silu(x), [](double v) { return v / (1 + std::exp(-v)); });
  expect(tanh(x), [](double v) { return std::tanh(v); });
  expect(relu(x), [](double v) { return v > 0 ? v : 0; });
  expect(exact(x), [](double v) { return v * 0.5 * (1 + std::erf(v / std::numbers::sqrt2)); });
  expect(approximate(x), [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  });
  expect(activation(x, "swish"), [](double v) { return v / (1 + std::exp(-v)); });
  EXPECT_THROW((void)activation(x, "silo"), Error);
  EXPECT_THROW(Dropout(1.0), Error);
}

TEST(SwiGLU, MultipliesTheActivatedGate) {
  const FreshRank rank;
  SwiGLU mlp(3, 5, {.dtype = kF64});
  const Tensor x = numbers({2, 4, 3});
  SiLU silu;
  expect_near(values(mlp(x)), values(mlp.down_proj()(silu(mlp.gate_proj()(x)) * mlp.up_proj()(x))));
  std::vector<std::string> names;
  for (const auto& parameter : mlp.named_parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"gate_proj.weight", "up_proj.weight", "down_proj.weight"}));
  expect_gradients([&] { return weighted_sum(mlp(x)); }, with_parameters(mlp, x));
}

TEST(MLP, HasTwoLinearLayers) {
  const FreshRank rank;
  MLP mlp(3, 5, {.activation = "tanh", .dtype = kF64});
  const Tensor x = numbers({2, 3});
  expect_near(values(mlp(x)), values(mlp.fc2()(tanh(mlp.fc1()(x)))));
}

// ---- rotary embeddings --------------------------------------------------------------------------------------------------

TEST(Rotary, RotatesDimITogetherWithDimIPlusHalf) {
  const FreshRank rank;
  RotaryEmbedding rotary(4, 16, {.theta = 100});
  const Tensor x = numbers({1, 3, 2, 4});
  const auto in = values(x), out = values(apply_rotary(x, rotary(std::int64_t{3}, kF64)));
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t h = 0; h < 2; ++h)
      for (std::size_t i = 0; i < 2; ++i) {
        const double angle = static_cast<double>(t) * std::pow(100.0, -static_cast<double>(i) / 2);
        const double a = in[(t * 2 + h) * 4 + i], b = in[(t * 2 + h) * 4 + i + 2];
        EXPECT_NEAR(out[(t * 2 + h) * 4 + i], a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(out[(t * 2 + h) * 4 + i + 2], b * std::cos(angle) + a * std::sin(angle), 1e-6);
      }
}

TEST(Rotary, GivenPositionsSelectTheSameRotations) {
  const FreshRank rank;
  RotaryEmbedding rotary(4, 16);
  const Tensor x = numbers({2, 3, 2, 4});
  const Tensor positions = Tensor::from<std::int32_t>({2, 3}, {0, 1, 2, 0, 1, 2});
  expect_near(values(apply_rotary(x, rotary(positions, kF64))), values(apply_rotary(x, rotary(std::int64_t{3}, kF64))));
}

// The frequencies of Hugging Face's transformers 5.23 for heads of 8, theta 10000 and 64 positions.
TEST(Rotary, ScaledFrequenciesAreThoseOfHuggingFace) {
  const std::vector<double> plain{1, 0.1, 0.01, 0.001};
  const auto expect = [&](const RopeConfig& config, const std::vector<double>& expected, double factor = 1) {
    const RopeFrequencies actual = rope_frequencies(config, 8, 64, 100);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(actual.inverse[i], expected[i], 1e-6 * expected[i]) << config.rope_type << " " << i;
    EXPECT_NEAR(actual.attention_factor, factor, 1e-12);
  };
  expect({}, plain);
  expect({.rope_type = "linear", .factor = 4}, {0.25, 0.025, 0.0025, 0.00025});
  expect({.rope_type = "llama3",
          .factor = 8,
          .low_freq_factor = 1,
          .high_freq_factor = 4,
          .original_max_position_embeddings = 128},
         {1, 0.042751178, 0.00125, 0.00012500001});
  expect({.rope_type = "yarn", .factor = 4, .original_max_position_embeddings = 512},
         {1, 0.0625, 0.0024999999, 0.00025000001}, 0.1 * std::log(4.0) + 1);
  expect({.rope_type = "dynamic", .factor = 2}, {1, 0.077782221, 0.006050074, 0.00047058825});
}

// The frequencies are the angles of position 1. Hugging Face's are those of 21 positions.
TEST(Rotary, DynamicFrequenciesDependOnTheLargestPosition) {
  const FreshRank rank;
  RotaryEmbedding rotary(8, 8, {.rope_type = "dynamic", .factor = 4});
  const Tensor positions = Tensor::from<std::int32_t>({2, 3}, {0, 1, 2, 20, 7, 3});
  const auto sines = values(rotary(positions, kF64).sin);
  const std::vector<double> expected{1.0, 0.05108729377388954, 0.002609911607578397, 0.00013333333481568843};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(std::asin(sines[8 + i]), expected[i % 4], 1e-6 * expected[i % 4]);
  EXPECT_THROW(RotaryEmbedding(2, 8, {.rope_type = "dynamic", .factor = 4}), Error);
}

TEST(Rotary, ConfigurationsOfBothFormsAreRead) {
  const auto read = [](const std::string& text) { return RopeConfig::from_json(JsonObject::parse(text, "c"), 500); };
  EXPECT_EQ(read("{}").theta, 500);
  EXPECT_EQ(read(R"({"rope_theta": 7.0, "rope_scaling": null})").theta, 7);
  const RopeConfig old = read(R"({"rope_theta": 9.0, "rope_scaling": {"type": "linear", "factor": 2.0}})");
  EXPECT_EQ(old.rope_type, "linear");
  EXPECT_EQ(old.factor, 2);
  const RopeConfig now = read(R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 3.0, "factor": 8.0}})");
  EXPECT_EQ(now.rope_type, "yarn");
  EXPECT_EQ(now.theta, 3);
  const RopeConfig published = read(R"({"rope_scaling": {"type": "yarn", "rope_type": null, "factor": 16.0,
      "attn_factor": 1.0, "attention_factor": null, "beta_fast": null, "mscale": 0.7, "mscale_all_dim": 0.5,
      "original_max_position_embeddings": 8192, "truncate": false, "finetuned": true}})");
  EXPECT_EQ(published, (RopeConfig{.rope_type = "yarn",
                                   .theta = 500,
                                   .factor = 16,
                                   .original_max_position_embeddings = 8192,
                                   .mscale = 0.7,
                                   .mscale_all_dim = 0.5,
                                   .truncate = false}));
  EXPECT_NEAR(rope_frequencies(published, 8, 8192).attention_factor,
              (0.07 * std::log(16.0) + 1) / (0.05 * std::log(16.0) + 1), 1e-12);
  const auto error = [&](const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error(R"({"rope_scaling": {"rope_type": "linear"}})"),
            "c: rope_scaling: rope_type \"linear\" needs a factor");
  EXPECT_EQ(error(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0}})"),
            "c: rope_scaling: rope_type \"llama3\" needs a low_freq_factor");
  EXPECT_EQ(error(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}})"),
            "c: rope_scaling: rope_type \"llama3\" needs a high_freq_factor");
  EXPECT_EQ(error(R"({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}})"),
            "c: rope_scaling: rope_type \"longrope\" is not supported; known: default, linear, dynamic, llama3, yarn");
  EXPECT_EQ(error(R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0]}})"),
            "c: rope_scaling: rope_type \"longrope\" is not supported; known: default, linear, dynamic, llama3, yarn");
  EXPECT_EQ(error(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "attn_factor": 1.5}})"),
            "c: rope_scaling: attn_factor 1.5 is not supported; it must be 1, and attention_factor scales the cosines "
            "and sines");
}

// ---- attention ----------------------------------------------------------------------------------------------------------

// softmax(q k^T / sqrt(d)) v by loops; `sees` tells which keys count.
std::vector<double> attention_by_hand(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const std::function<bool(std::int64_t, std::int64_t, std::int64_t)>& sees) {
  const auto qs = values(q), ks = values(k), vs = values(v);
  const std::int64_t b = q.dim(0), t = q.dim(1), h = q.dim(2), d = q.dim(3), s = k.dim(1), g = k.dim(2);
  std::vector<double> out(qs.size(), 0.0);
  const auto place = [&](std::int64_t i, std::int64_t j, std::int64_t times, std::int64_t head, std::int64_t heads) {
    return static_cast<std::size_t>(((i * times + j) * heads + head) * d);
  };
  for (std::int64_t i = 0; i < b; ++i)
    for (std::int64_t head = 0; head < h; ++head)
      for (std::int64_t a = 0; a < t; ++a) {
        std::vector<double> weights(static_cast<std::size_t>(s), 0.0);
        double total = 0;
        for (std::int64_t c = 0; c < s; ++c) {
          if (!sees(i, a, c)) continue;
          double score = 0;
          for (std::int64_t e = 0; e < d; ++e)
            score += qs[place(i, a, t, head, h) + static_cast<std::size_t>(e)] *
                     ks[place(i, c, s, head / (h / g), g) + static_cast<std::size_t>(e)];
          total += weights[static_cast<std::size_t>(c)] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        for (std::int64_t c = 0; c < s; ++c)
          for (std::int64_t e = 0; total > 0 && e < d; ++e)
            out[place(i, a, t, head, h) + static_cast<std::size_t>(e)] +=
                weights[static_cast<std::size_t>(c)] / total *
                vs[place(i, c, s, head / (h / g), g) + static_cast<std::size_t>(e)];
      }
  return out;
}

TEST(Attention, GroupsOfHeadsShareKeys) {
  const FreshRank rank;
  const Tensor q = numbers({2, 3, 6, 5}), k = numbers({2, 3, 2, 5}, 2), v = numbers({2, 3, 2, 5}, 3);
  const auto causal = [](std::int64_t, std::int64_t t, std::int64_t s) { return s <= t; };
  expect_near(values(attend(q, k, v, {.is_causal = true})), attention_by_hand(q, k, v, causal));
  expect_gradients([&] { return weighted_sum(attend(q, k, v, {.is_causal = true})); }, {q, k, v});
}

TEST(Attention, RowsThatSeeNoKeyAreZero) {
  const FreshRank rank;
  const Tensor q = numbers({2, 3, 2, 5}), k = numbers({2, 4, 2, 5}, 2), v = numbers({2, 4, 2, 5}, 3);
  std::vector<bool> seen{true, false, true, true, false, false, false, false};
  const Tensor mask = Tensor::from<std::int32_t>({2, 1, 1, 4}, {1, 0, 1, 1, 0, 0, 0, 0}) == 1.0;
  const auto sees = [&](std::int64_t b, std::int64_t, std::int64_t s) {
    return bool(seen[static_cast<std::size_t>(b * 4 + s)]);
  };
  expect_near(values(attend(q, k, v, {.mask = mask})), attention_by_hand(q, k, v, sees));
}

Tensor heads_of(const Tensor& x, const Tensor& weight, const Tensor& bias, int which) {
  const Tensor y = dot(x, weight.select(0, which), {.lhs_contracting = {2}, .rhs_contracting = {2}});
  return y + bias.select(0, which);
}

TEST(MultiheadAttention, EqualsAttentionOfItsProjections) {
  const FreshRank rank;
  MultiheadAttention attention(6, 2, {.batch_first = true, .dtype = kF64});
  Tensor bias = attention.parameter("in_proj_bias");
  bias.assign(numbers(bias.dims()));
  const Tensor q = numbers({2, 3, 6}), k = numbers({2, 5, 6}, 2);
  const Tensor weight = attention.in_proj_weight();
  const std::vector<int> ignored{0, 0, 1, 0, 1, 1, 0, 0, 0, 0};
  const Tensor padding = Tensor::from<std::int32_t>({2, 5}, {ignored.begin(), ignored.end()}) == 1.0;
  const auto sees = [&](std::int64_t b, std::int64_t, std::int64_t s) {
    return ignored[static_cast<std::size_t>(b * 5 + s)] == 0;
  };
  const Tensor mixed =
      Tensor::from<double>({2, 3, 6}, attention_by_hand(heads_of(q, weight, bias, 0), heads_of(k, weight, bias, 1),
                                                        heads_of(k, weight, bias, 2), sees));
  const Tensor out = attention(q, k, k, MultiheadAttention::Masks{.key_padding_mask = padding});
  expect_near(values(out), values(attention.out_proj()(mixed)));
}

TEST(MultiheadAttention, HasPyTorchsParametersAndForms) {
  const FreshRank rank;
  MultiheadAttention attention(6, 3, {.dtype = kF64});
  std::vector<std::string> names;
  for (const auto& parameter : attention.named_parameters()) {
    std::string dims;
    for (const auto d : parameter.exported_dims) dims += " " + std::to_string(d);
    names.push_back(parameter.name + dims);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"in_proj_weight 18 6", "in_proj_bias 18", "out_proj.weight 6 6",
                                             "out_proj.bias 6"}));
  for (const char* bias : {"in_proj_bias", "out_proj.bias"})
    for (const double value : values(attention.parameter(bias))) EXPECT_EQ(value, 0) << bias;
  const Tensor x = numbers({4, 2, 6});  // [time, batch, width]
  EXPECT_EQ(attention(x, x, x).dims(), (Dims{4, 2, 6}));
  // A causal mask, booleans that are true where attention is not allowed, and floats that are added give the same.
  const Type square = Type::array(DType::kS32, {4, 4});
  const Tensor later = Tensor::iota(square, 0) < Tensor::iota(square, 1);
  const Tensor added = where(later, Tensor::full(Type::array(kF64, {4, 4}), -1e9), 0.0);
  const auto expected = values(attention(x, x, x, MultiheadAttention::Masks{.is_causal = true}));
  expect_near(values(attention(x, x, x, MultiheadAttention::Masks{.attn_mask = later})), expected);
  expect_near(values(attention(x, x, x, MultiheadAttention::Masks{.attn_mask = added})), expected);
  MultiheadAttention other(6, 3, {.kdim = 4, .vdim = 5, .dtype = kF64});
  EXPECT_TRUE(other.in_proj_weight().is_null());
  EXPECT_EQ(other.parameter("q_proj_weight").dims(), (Dims{3, 2, 6}));
  EXPECT_EQ(other.parameter("k_proj_weight").dims(), (Dims{3, 2, 4}));
  EXPECT_EQ(other.parameter("v_proj_weight").dims(), (Dims{3, 2, 5}));
  EXPECT_EQ(other.in_proj_bias().dims(), (Dims{3, 3, 2}));
  EXPECT_EQ(other(x, numbers({7, 2, 4}), numbers({7, 2, 5})).dims(), (Dims{4, 2, 6}));
  EXPECT_THROW(MultiheadAttention(6, 4), Error);
}

TEST(MultiheadAttention, ForwardReadsNothingOnTheHost) {
  const FreshRank rank;
  MultiheadAttention attention(6, 2, {.dropout = 0.1, .batch_first = true});
  const Tensor x = Tensor::from<float>({2, 3, 6}, std::vector<float>(36, 0.5F));
  const Tensor padding = Tensor::from<std::int32_t>({2, 3}, {0, 0, 1, 0, 1, 1}) == 1.0;
  mark_step();
  const auto reads = [] {
    const auto data = metrics().metric_data("TransferFromDeviceTime");
    return std::pair{lazy_counters().forced_reads, data ? data->total_samples : 0};
  };
  const auto before = reads();
  const auto executions = lazy_counters().executions;
  const Tensor y = attention(x, x, x, MultiheadAttention::Masks{.key_padding_mask = padding, .is_causal = true});
  sum(y).backward();
  EXPECT_EQ(lazy_counters().executions, executions);
  mark_step({.wait = true});
  EXPECT_EQ(reads(), before);
  (void)y.to_host();
  EXPECT_GT(reads().second, before.second);
}

}  // namespace
}  // namespace tessera::nn

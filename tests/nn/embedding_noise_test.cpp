// SPDX-License-Identifier: Apache-2.0
// The noise of NEFTune: its size, when it is added, and the embeddings of the models.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/embedding.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/nn/models/llama.h"
#include "tessera/nn/models/mixtral.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kNoiseTexts = 40, kNoiseLength = 5, kNoiseWidth = 6;

// What a call of the table adds to its rows.
std::vector<double> noise_of(Embedding& table) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < kNoiseTexts * kNoiseLength; ++i) ids.push_back(i % 11);
  const Tensor tokens = Tensor::from<std::int32_t>({kNoiseTexts, kNoiseLength}, ids);
  const Tensor difference = table(tokens) - embedding(table.weight(), tokens);
  std::vector<double> out = difference.to_vector<double>();
  mark_step();
  return out;
}

bool is_zero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value == 0; });
}

TEST(EmbeddingNoise, IsUniformUpToAlphaOverTheRootOfTheSizeOfAText) {
  const FreshRank rank;
  Embedding table(11, kNoiseWidth, 1.0, DType::kF64);
  constexpr double kAlpha = 7;
  add_embedding_noise(table, kAlpha);
  const double most = kAlpha / std::sqrt(kNoiseLength * kNoiseWidth);
  const std::vector<double> noise = noise_of(table);
  ASSERT_EQ(noise.size(), static_cast<std::size_t>(kNoiseTexts * kNoiseLength * kNoiseWidth));
  const auto [least, greatest] = std::minmax_element(noise.begin(), noise.end());
  EXPECT_TRUE(*least >= -most - 1e-12 && *least < -0.95 * most) << *least;
  EXPECT_TRUE(*greatest <= most + 1e-12 && *greatest > 0.95 * most) << *greatest;
  const auto count = static_cast<double>(noise.size());
  const double mean = std::accumulate(noise.begin(), noise.end(), 0.0) / count;
  const double square = std::inner_product(noise.begin(), noise.end(), noise.begin(), 0.0) / count;
  EXPECT_NEAR(mean / most, 0, 0.1);
  EXPECT_NEAR(square / (most * most), 1.0 / 3, 0.05);
  // Equal ids and later steps get other noise.
  EXPECT_NE(noise[0], noise[11 * kNoiseWidth]);
  EXPECT_NE(noise, noise_of(table));
}

TEST(EmbeddingNoise, IsOnlyAddedInTrainingAndUntilTheHookIsRemoved) {
  const FreshRank rank;
  Embedding table(11, kNoiseWidth, 1.0, DType::kF64);
  EXPECT_TRUE(is_zero(noise_of(table)));
  HookHandle hook = add_embedding_noise(table, 2);
  EXPECT_FALSE(is_zero(noise_of(table)));
  table.eval();
  EXPECT_TRUE(is_zero(noise_of(table)));
  table.train();
  EXPECT_FALSE(is_zero(noise_of(table)));
  hook.remove();
  EXPECT_TRUE(is_zero(noise_of(table)));
}

TEST(EmbeddingNoise, GradientsOfTheRowsDoNotDependOnIt) {
  const FreshRank rank;
  Embedding table(3, 2, 1.0, DType::kF64);
  add_embedding_noise(table, 2);
  sum(table(Tensor::from<std::int32_t>({2, 2}, {0, 2, 2, 2}))).backward();
  mark_step();
  EXPECT_EQ(table.weight().grad().to_vector<double>(), (std::vector<double>{1, 1, 0, 0, 3, 3}));
}

TEST(EmbeddingNoise, MistakesAreErrors) {
  const FreshRank rank;
  Embedding table(3, 2, 1.0, DType::kF64);
  EXPECT_EQ(::tessera::testing::error_of([&] { add_embedding_noise(table, -1); }),
            "the noise of an embedding needs alpha >= 0, got -1");
  add_embedding_noise(table, 1);
  EXPECT_NE(::tessera::testing::error_of([&] {
              (void)table(Tensor::from<std::int32_t>({2}, {0, 1}));
            }).find("the noise of an embedding needs ids [batch, time]"),
            std::string::npos);
}

// Noise reaches the loss of every kind of model.
template <class Model, class Config>
void expect_noise_in_the_loss(Config config) {
  const FreshRank rank;
  config.dtype = DType::kF64;
  Model model(config);
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 12; ++i) ids.push_back((i * i) % 11);
  const Tensor tokens = Tensor::from<std::int32_t>({2, 6}, ids);
  const auto loss = [&] {
    const double value = model(tokens, tokens).item();
    mark_step();
    return value;
  };
  model.eval();
  const double plain = loss();
  EXPECT_EQ(model.input_embedding().weight().dims().front(), 11);
  add_embedding_noise(model.input_embedding(), 20);
  EXPECT_EQ(loss(), plain);
  model.train();
  EXPECT_GT(std::fabs(loss() - plain), 1e-6);
}

GPT2Config gpt2_without_dropout() {
  GPT2Config config;
  config.vocab_size = 11;
  config.n_positions = 6;
  config.n_embd = 12;
  config.n_layer = 1;
  config.n_head = 3;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0;
  return config;
}

TEST(EmbeddingNoise, ReachesTheLossOfEveryModel) {
  expect_noise_in_the_loss<GPT2LMHeadModel>(gpt2_without_dropout());
  expect_noise_in_the_loss<LlamaForCausalLM>(LlamaConfig::tiny(11));
  expect_noise_in_the_loss<MixtralForCausalLM>(MixtralConfig::tiny(11));
}

}  // namespace
}  // namespace tessera::nn

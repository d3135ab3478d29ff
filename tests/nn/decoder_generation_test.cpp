// SPDX-License-Identifier: Apache-2.0
// Llama, its variants and Mixtral generate with a cache what they generate without one, on every mesh, also with a sliding window.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "frontend/on_ranks.h"
#include "support/sanitizers.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/generation/generate.h"
#include "tessera/nn/models/llama.h"
#include "tessera/nn/models/mistral.h"
#include "tessera/nn/models/mixtral.h"
#include "tessera/nn/models/qwen.h"

namespace tessera::nn {
namespace {

enum class Kind { kLlama, kMixtral, kMixtralWithWindow, kMistral, kQwen2, kQwen3 };

template <class Config>
Config generating_config(std::int64_t hidden_size) {
  Config config = Config::tiny(19);
  config.hidden_size = hidden_size;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 3;
  config.max_position_embeddings = 21;
  config.initializer_range = 0.4;
  config.dtype = DType::kF64;
  return config;
}

// The layers have different windows.
template <class Config>
Config generating_qwen(std::vector<std::string> layer_types) {
  auto config = generating_config<Config>(12);
  config.use_sliding_window = true;
  config.sliding_window = 3;
  config.layer_types = std::move(layer_types);
  return config;
}

std::unique_ptr<CausalLM> decoder(Kind kind) {
  manual_seed(7);
  if (kind == Kind::kLlama) return std::make_unique<LlamaForCausalLM>(generating_config<LlamaConfig>(24));
  if (kind == Kind::kQwen2)
    return std::make_unique<Qwen2ForCausalLM>(generating_qwen<Qwen2Config>({"full_attention", "sliding_attention"}));
  if (kind == Kind::kQwen3)
    return std::make_unique<Qwen3ForCausalLM>(generating_qwen<Qwen3Config>({"sliding_attention", "full_attention"}));
  if (kind == Kind::kMistral) {
    auto config = generating_config<MistralConfig>(12);
    config.sliding_window = 4;
    return std::make_unique<MistralForCausalLM>(config);
  }
  auto config = generating_config<MixtralConfig>(12);
  config.num_local_experts = 3;
  config.sliding_window = kind == Kind::kMixtralWithWindow ? 4 : 0;
  return std::make_unique<MixtralForCausalLM>(config);
}

const std::vector<Tokens> kStarts{{3, 1, 4, 1, 5, 9, 2}, {6}, {5, 3, 5}};

Tokens continued_without_cache(CausalLM& model, Tokens text, int count) {
  for (int i = 0; i < count; ++i) {
    const auto length = static_cast<std::int64_t>(text.size());
    const Tensor logits = model.logits(Tensor::from<std::int32_t>({1, length}, text));
    text.push_back(argmax(logits.select(0, 0).select(0, length - 1), 0).to_vector<std::int32_t>().front());
  }
  return text;
}

TEST(DecoderGeneration, TheLikeliestTokensAreThoseOfTheModelWithoutACache) {
  for (const Kind kind :
       {Kind::kLlama, Kind::kMixtral, Kind::kMixtralWithWindow, Kind::kMistral, Kind::kQwen2, Kind::kQwen3}) {
    const FreshRank rank;
    const auto model = decoder(kind);
    model->eval();
    for (const std::int64_t chunk : {1, 3, 32}) {
      const auto texts = generate(*model, kStarts, {.max_new_tokens = 8}, {.prompt_chunk = chunk});
      for (std::size_t b = 0; b < kStarts.size(); ++b)
        EXPECT_EQ(texts[b], continued_without_cache(*model, kStarts[b], 8))
            << "model " << static_cast<int>(kind) << " chunk " << chunk << " text " << b;
    }
  }
}

TEST(DecoderGeneration, EveryMeshGivesTheSameTexts) {
  for (const Kind kind : {Kind::kLlama, Kind::kMixtralWithWindow, Kind::kQwen3}) {
    std::vector<Tokens> expected;
    for (const char* text :
         testing::cases_of<const char*>({"data=2,model=3", "data=1", "data=2", "model=3", "data=3,model=2"})) {
      std::mutex guard;
      on_ranks(static_cast<int>(Mesh::parse(text).device_count()), [&](int rank) {
        const Mesh mesh = Mesh::parse(text);
        set_default_mesh(mesh);
        const auto model = decoder(kind);
        GeneratorOptions placement{.prompt_chunk = 4, .mesh = mesh};
        if (mesh.has_axis("model")) model->shard_tensor_parallel(mesh, "model");
        placement.batch_axes = {"data"};
        if (!mesh.has_axis("data")) placement.batch_axes = {};
        const auto texts = generate(*model, kStarts, {.max_new_tokens = 6}, placement);
        const std::lock_guard lock(guard);
        if (expected.empty()) expected = texts;
        EXPECT_EQ(texts, expected) << text << " rank " << rank << " model " << static_cast<int>(kind);
      });
    }
  }
}

}  // namespace
}  // namespace tessera::nn

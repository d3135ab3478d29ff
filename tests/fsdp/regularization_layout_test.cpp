// SPDX-License-Identifier: Apache-2.0
// With noise of embeddings, dropout and smoothed labels, a training has the same losses and weights on many meshes, whose
// axes divide neither the rows, nor the vocabulary, nor the heads evenly.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "fsdp/small_decoder.h"
#include "nn/module_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/embedding.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/nn/models/llama.h"

namespace tessera {
namespace {

constexpr std::int64_t kNoisyRows = 5, kNoisyTime = 6;

std::unique_ptr<nn::CausalLM> noisy_gpt2() {
  nn::GPT2Config config;
  config.vocab_size = kVocabulary;
  config.n_positions = kNoisyTime;
  config.n_embd = 12;
  config.n_layer = 2;
  config.n_head = 3;
  config.dtype = DType::kF64;
  config.initializer_range = 0.2;
  return std::make_unique<nn::GPT2LMHeadModel>(config);
}

std::unique_ptr<nn::CausalLM> noisy_llama() {
  return std::make_unique<nn::LlamaForCausalLM>(small_decoder<nn::LlamaConfig>());
}

Tensor noisy_tokens(const Mesh& mesh, int step) {
  Tensor out = nn::varied_ids({kNoisyRows, kNoisyTime}, kVocabulary, step);
  SpecEntry rows;
  for (const auto& axis : mesh.axes())
    if (axis.name != "model") rows.push_back(axis.name);
  if (!rows.empty()) mark_sharding(out, mesh, PartitionSpec({PartitionSpec::Entry(rows), PartitionSpec::Entry()}));
  return out;
}

// The losses of two steps, and the weights after them.
std::vector<double> noisy_course(std::unique_ptr<nn::CausalLM> (*make)(), const std::string& text) {
  const Mesh mesh = Mesh::parse(text);
  set_default_mesh(mesh);
  manual_seed(8);
  const std::unique_ptr<nn::CausalLM> model = make();
  nn::add_embedding_noise(model->input_embedding(), 3);
  if (mesh.has_axis("model")) model->shard_tensor_parallel(mesh, "model");
  if (mesh.has_axis("fsdp")) {
    EXPECT_GT(fully_shard(*model, {.mesh = mesh}).size(), 1U);
  }
  return nn::trained_values(*model, [&](int step) {
    const Tensor tokens = noisy_tokens(mesh, step);
    const nn::CausalLossParts parts = model->loss_parts(tokens, tokens, {}, 0.2);
    return parts.sum / parts.count;
  });
}

void expect_noisy_layouts(std::unique_ptr<nn::CausalLM> (*make)(), const std::vector<std::string>& meshes) {
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = noisy_course(make, "data=1");
  }
  for (const std::string& mesh : meshes)
    on_ranks(static_cast<int>(Mesh::parse(mesh).device_count()),
             [&](int) { nn::expect_close(noisy_course(make, mesh), expected, mesh); });
}

TEST(Regularization, Gpt2TrainsAlikeOnEveryMesh) {
  expect_noisy_layouts(noisy_gpt2, {"data=2", "fsdp=3", "fsdp=2,model=3", "data=2,model=2"});
}
TEST(Regularization, LlamaTrainsAlikeOnEveryMesh) { expect_noisy_layouts(noisy_llama, {"model=2", "fsdp=2,model=3"}); }

}  // namespace
}  // namespace tessera

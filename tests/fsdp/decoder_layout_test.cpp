// SPDX-License-Identifier: Apache-2.0
// Llama, its variants and Mixtral give the same losses and gradients on many meshes: over data, fsdp, model and expert axes, with
// sizes of batch, vocabulary and groups of heads that do not divide evenly.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/on_ranks.h"
#include "fsdp/small_decoder.h"
#include "support/sanitizers.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/llama.h"
#include "tessera/nn/models/mistral.h"
#include "tessera/nn/models/mixtral.h"
#include "tessera/nn/models/qwen.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

constexpr std::int64_t kDecoderRows = 5;
constexpr std::int64_t kDecoderTime = 6;
std::unique_ptr<nn::CausalLM> small_llama() {
  auto config = small_decoder<nn::LlamaConfig>();
  config.tie_word_embeddings = true;
  config.attention_bias = true;
  return std::make_unique<nn::LlamaForCausalLM>(config);
}

std::unique_ptr<nn::CausalLM> small_mistral() {
  auto config = small_decoder<nn::MistralConfig>();
  config.sliding_window = 3;
  return std::make_unique<nn::MistralForCausalLM>(config);
}

// The first layer has a window, the second one has none.
template <class Model>
std::unique_ptr<nn::CausalLM> small_qwen() {
  auto config = small_decoder<typename Model::Config>();
  config.use_sliding_window = true;
  config.sliding_window = 2;
  config.layer_types = {"sliding_attention", "full_attention"};
  return std::make_unique<Model>(config);
}

std::unique_ptr<nn::MixtralForCausalLM> small_mixtral(double capacity_factor) {
  auto config = small_decoder<nn::MixtralConfig>();
  config.num_local_experts = 5;
  config.expert_capacity_factor = capacity_factor;
  config.output_router_logits = true;
  config.router_aux_loss_coef = 0.1;
  config.router_z_loss_coef = 0.01;
  return std::make_unique<nn::MixtralForCausalLM>(config);
}

struct DecoderLayout {
  std::string model;
  std::string mesh;
};

std::unique_ptr<nn::CausalLM> sharded_model(const DecoderLayout& layout, const Mesh& mesh) {
  std::unique_ptr<nn::CausalLM> out;
  if (layout.model == "Llama") {
    out = small_llama();
  } else if (layout.model == "Mistral") {
    out = small_mistral();
  } else if (layout.model == "Qwen2") {
    out = small_qwen<nn::Qwen2ForCausalLM>();
  } else if (layout.model == "Qwen3") {
    out = small_qwen<nn::Qwen3ForCausalLM>();
  } else {
    auto mixtral = small_mixtral(layout.model == "MixtralWithCapacity" ? 1.2 : 0);
    if (mesh.has_axis("expert")) mixtral->shard_experts(mesh, "expert");
    out = std::move(mixtral);
  }
  if (mesh.has_axis("model")) out->shard_tensor_parallel(mesh, "model");
  if (mesh.has_axis("fsdp")) {
    const auto policy = transformer_auto_wrap_policy({std::string(out->block_class())});
    EXPECT_EQ(fully_shard(*out, {.mesh = mesh, .auto_wrap_policy = policy}).size(), 3U);
  }
  return out;
}

Tensor decoder_batch(const Mesh& mesh, int step) {
  std::vector<std::int32_t> values;
  for (int i = 0; i < kDecoderRows * kDecoderTime; ++i)
    values.push_back(static_cast<int>((7 * i + 3 * step + i * i / 5) % kVocabulary));
  const Tensor tokens = Tensor::from<std::int32_t>({kDecoderRows, kDecoderTime}, values);
  SpecEntry rows;
  for (const auto& axis : mesh.axes())
    if (axis.name != "model") rows.push_back(axis.name);
  if (!rows.empty()) mark_sharding(tokens, mesh, PartitionSpec({PartitionSpec::Entry(rows), PartitionSpec::Entry()}));
  return tokens;
}

struct DecoderCourse {
  std::vector<double> losses;
  std::vector<std::vector<double>> gradients;  // of the last step, for each parameter
};

DecoderCourse decoder_course(const DecoderLayout& layout) {
  const Mesh mesh = Mesh::parse(layout.mesh);
  set_default_mesh(mesh);
  manual_seed(5);
  const auto model = sharded_model(layout, mesh);
  optim::AdamW optimizer(model->parameters(), {.learning_rate = 1e-3, .weight_decay = 0.1});
  DecoderCourse out;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Tensor tokens = decoder_batch(mesh, step);
    const Tensor loss = model->forward(tokens, tokens);
    loss.backward();
    optimizer.step();
    mark_step();
    out.losses.push_back(loss.item());
  }
  std::vector<Tensor> gradients;
  for (const auto& parameter : model->parameters()) gradients.push_back(parameter.grad());
  for (const auto& literal : read_all(gradients))
    out.gradients.emplace_back(literal.data<double>().begin(), literal.data<double>().end());
  return out;
}

DecoderCourse course_of_ranks(const DecoderLayout& layout) {
  DecoderCourse out;
  on_ranks(static_cast<int>(Mesh::parse(layout.mesh).device_count()), [&](int rank) {
    DecoderCourse mine = decoder_course(layout);
    if (rank == 0) out = std::move(mine);
  });
  return out;
}

class DecoderLayouts : public ::testing::TestWithParam<DecoderLayout> {};

TEST_P(DecoderLayouts, LossesAndGradientsEqualThoseOfOneRank) {
  const DecoderCourse expected = course_of_ranks({GetParam().model, "data=1"});
  const DecoderCourse course = course_of_ranks(GetParam());
  ASSERT_EQ(course.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(course.losses[i], expected.losses[i], 1e-9 * std::fabs(expected.losses[i])) << "step " << i;
  ASSERT_EQ(course.gradients.size(), expected.gradients.size());
  for (std::size_t p = 0; p < expected.gradients.size(); ++p)
    for (std::size_t i = 0; i < expected.gradients[p].size(); ++i)
      ASSERT_NEAR(course.gradients[p][i], expected.gradients[p][i], 1e-10) << "parameter " << p << " element " << i;
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, DecoderLayouts,
    ::testing::ValuesIn(tessera::testing::cases_of<DecoderLayout>(
        {DecoderLayout{"Llama", "data=2"}, DecoderLayout{"Llama", "model=2"}, DecoderLayout{"Llama", "fsdp=2,model=3"},
         DecoderLayout{"Llama", "data=2,fsdp=2"}, DecoderLayout{"Mistral", "fsdp=2,model=2"},
         DecoderLayout{"Qwen2", "data=2,model=3"}, DecoderLayout{"Qwen3", "fsdp=3"},
         DecoderLayout{"Qwen3", "fsdp=2,model=2"}, DecoderLayout{"Mixtral", "expert=2"},
         DecoderLayout{"Mixtral", "fsdp=3"}, DecoderLayout{"Mixtral", "expert=2,model=3"},
         DecoderLayout{"MixtralWithCapacity", "expert=3"}, DecoderLayout{"MixtralWithCapacity", "fsdp=2,expert=3"},
         DecoderLayout{"MixtralWithCapacity", "data=2,model=2"}})),
    [](const auto& info) {
      std::string name = info.param.model + "_" + info.param.mesh;
      for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      return name;
    });

}  // namespace
}  // namespace tessera

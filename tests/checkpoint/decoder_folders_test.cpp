// SPDX-License-Identifier: Apache-2.0
// Model folders of Mistral, Qwen2 and Qwen3: saved on one rank, loaded and saved again under other layouts.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/mistral.h"
#include "tessera/nn/models/qwen.h"
#include "tessera/nn/models/registry.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

using testing::TemporaryFolder;

template <class Model>
typename Model::Config folder_config() {
  auto config = Model::Config::tiny(13);
  config.hidden_size = 12;
  config.intermediate_size = 10;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 3;
  config.sliding_window = 3;
  if constexpr (requires { config.layer_types; }) {
    config.use_sliding_window = true;
    config.layer_types = {"full_attention", "sliding_attention"};
  }
  return config;
}

std::map<std::string, Literal> decoder_values(const nn::Module& model) {
  std::map<std::string, Literal> out;
  for (const auto& entry : model.state_dict().entries()) out.emplace(entry.name, entry.tensor.to_host());
  return out;
}

// The names of one file without those of the second layer.
std::set<std::string> names_of_one_layer(const std::string& file) {
  std::set<std::string> out;
  for (const auto& [name, literal] : read_safetensors(file).tensors)
    if (!name.starts_with("model.layers.1.")) out.insert(name);
  return out;
}

std::set<std::string> with_names_of_llama(std::set<std::string> out) {
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}) out.insert(name);
  for (const char* name :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
        "mlp.down_proj", "input_layernorm", "post_attention_layernorm"})
    out.insert(std::string("model.layers.0.") + name + ".weight");
  return out;
}

// Loads the folder under other layouts and saves it again.
template <class Model>
void expect_equal_folders(const std::set<std::string>& further_names) {
  const TemporaryFolder folder;
  std::map<std::string, Literal> expected;
  {
    const FreshRank rank;
    Model model(folder_config<Model>());
    expected = decoder_values(model);
    save_pretrained(model, folder.file("0"));
  }
  EXPECT_EQ(names_of_one_layer(folder.file("0/model.safetensors")), with_names_of_llama(further_names));
  int saved = 0;
  for (const char* text : {"fsdp=2,model=3", "model=2", "fsdp=3"}) {
    const std::string from = folder.file(std::to_string(saved));
    const std::string to = folder.file(std::to_string(++saved));
    const Mesh mesh = Mesh::parse(text);
    on_ranks(static_cast<int>(mesh.device_count()), [&](int) {
      const auto model = from_pretrained<Model>(from);
      set_default_mesh(mesh);
      if (mesh.has_axis("model")) model->shard_tensor_parallel(mesh, "model");
      if (mesh.has_axis("fsdp")) fully_shard(*model, {.mesh = mesh});
      EXPECT_EQ(decoder_values(*model), expected) << text;
      save_pretrained(*model, to);
    });
  }
  const FreshRank rank;
  const auto any = from_pretrained(folder.file(std::to_string(saved)));
  const Model same(folder_config<Model>());
  EXPECT_EQ(any->class_name(), same.class_name());
  EXPECT_EQ(decoder_values(*any), expected);
  EXPECT_EQ(Model::Config::from_json(any->config_json()).sliding_window, 3);
  EXPECT_EQ(Model::Config::from_json(any->config_json()).to_json(), any->config_json());
}

TEST(DecoderFolders, OfMistralLoadUnderEveryLayout) { expect_equal_folders<nn::MistralForCausalLM>({}); }

TEST(DecoderFolders, OfQwen2LoadUnderEveryLayout) {
  const std::string prefix = "model.layers.0.self_attn.";
  expect_equal_folders<nn::Qwen2ForCausalLM>({prefix + "q_proj.bias", prefix + "k_proj.bias", prefix + "v_proj.bias"});
}

TEST(DecoderFolders, OfQwen3LoadUnderEveryLayout) {
  const std::string prefix = "model.layers.0.self_attn.";
  expect_equal_folders<nn::Qwen3ForCausalLM>({prefix + "q_norm.weight", prefix + "k_norm.weight"});
}

}  // namespace
}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The experts of a mixture are one variable here and one tensor each in model folders.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/mixtral.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

using testing::TemporaryFolder;

nn::MixtralConfig small_mixtral() {
  nn::MixtralConfig config = nn::MixtralConfig::tiny(11);
  config.hidden_size = 8;
  config.intermediate_size = 5;
  config.num_local_experts = 3;
  config.num_hidden_layers = 1;
  return config;
}

std::map<std::string, Literal> mixtral_values(const nn::Module& model) {
  std::map<std::string, Literal> out;
  for (const auto& entry : model.state_dict().entries()) out.emplace(entry.name, entry.tensor.to_host());
  return out;
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    for (const auto& [name, literal] : read_safetensors(entry.path().string()).tensors) out.insert(name);
  }
  return out;
}

const std::string kExperts = "model.layers.0.block_sparse_moe.experts.";

TEST(ExpertFiles, ExpertsAreSavedAndLoadedOneByOneUnderEveryLayout) {
  const TemporaryFolder folder;
  std::map<std::string, Literal> expected;
  {
    const FreshRank rank;
    nn::MixtralForCausalLM model(small_mixtral());
    expected = mixtral_values(model);
    save_pretrained(model, folder.file("0"));
  }
  int saved = 0;
  for (const char* text : {"expert=2", "expert=3", "fsdp=2,expert=3", "fsdp=4", "model=2"}) {
    const std::string from = folder.file(std::to_string(saved));
    const std::string to = folder.file(std::to_string(++saved));
    const Mesh mesh = Mesh::parse(text);
    on_ranks(static_cast<int>(mesh.device_count()), [&](int) {
      const auto model = from_pretrained<nn::MixtralForCausalLM>(from);
      set_default_mesh(mesh);
      if (mesh.has_axis("expert")) model->shard_experts(mesh, "expert");
      if (mesh.has_axis("model")) model->shard_tensor_parallel(mesh, "model");
      if (mesh.has_axis("fsdp")) fully_shard(*model, {.mesh = mesh});
      EXPECT_EQ(mixtral_values(*model), expected) << text;
      save_pretrained(*model, to, {.max_shard_bytes = saved % 2 == 0 ? 1500 : 1 << 20});
    });
    const auto names = names_in(to);
    for (const char* name : {"0.w1.weight", "1.w2.weight", "2.w3.weight"}) EXPECT_TRUE(names.contains(kExperts + name));
    EXPECT_FALSE(names.contains(kExperts + "*.w1.weight"));
  }
}

TEST(ExpertFiles, AConsolidatedCheckpointHasOneTensorForEachExpert) {
  const TemporaryFolder folder;
  on_ranks(3, [&](int rank) {
    nn::MixtralForCausalLM model(small_mixtral());
    const Mesh mesh({{"expert", 3}});
    set_default_mesh(mesh);
    model.shard_experts(mesh, "expert");
    const auto expected = mixtral_values(model);
    save_checkpoint(folder.file("c"),
                    {.states = {{"model", model.state_dict()}}, .documents = {{"config", config_json(model)}}});
    if (rank != 0) return;
    Checkpoint(folder.file("c")).consolidate("model", folder.file("m"), 1 << 20);
    EXPECT_TRUE(names_in(folder.file("m")).contains(kExperts + "2.w2.weight"));
  });
  const FreshRank rank;
  const auto model = from_pretrained(folder.file("m"));
  EXPECT_EQ(model->class_name(), "MixtralForCausalLM");
}

TEST(ExpertFiles, AMissingExpertIsNamed) {
  const FreshRank rank;
  const TemporaryFolder folder;
  nn::MixtralForCausalLM model(small_mixtral());
  save_pretrained(model, folder.file("m"));
  nn::MixtralConfig more = small_mixtral();
  more.num_local_experts = 4;
  nn::MixtralForCausalLM larger(more);
  const std::string path = folder.file("m");
  try {
    load_pretrained(larger, path);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), path + ": " + kExperts + "3.w1.weight is missing; " + kExperts +
                                             "*.w1.weight needs 4 parts, and the files have 3");
  }
  more.num_local_experts = 2;
  nn::MixtralForCausalLM smaller(more);
  EXPECT_THROW(load_pretrained(smaller, path), Error);
}

}  // namespace
}  // namespace tessera

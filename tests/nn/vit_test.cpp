// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/vit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "module_checks.h"
#include "support/sanitizers.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera::nn {
namespace {

// Three heads, and 3 x 2 patches: nothing divides evenly.
ViTConfig small_vit() {
  ViTConfig config = ViTConfig::tiny(5);
  config.hidden_size = 12;
  config.num_attention_heads = 3;
  config.intermediate_size = 20;
  config.image_size = {13, 8};
  config.dtype = DType::kF64;
  config.initializer_range = 0.2;
  return config;
}

TEST(ViT, NamesAndShapesAreThoseOfHuggingFace) {
  const FreshRank rank;
  ViTForImageClassification model(small_vit());
  const auto names = names_of(model);
  for (const char* name :
       {"vit.embeddings.cls_token 1x1x12", "vit.embeddings.position_embeddings 1x7x12",
        "vit.embeddings.patch_embeddings.projection.weight 12x3x4x4",
        "vit.encoder.layer.0.attention.attention.query.weight 12x12",
        "vit.encoder.layer.1.attention.attention.value.bias 12",
        "vit.encoder.layer.1.attention.output.dense.weight 12x12",
        "vit.encoder.layer.0.intermediate.dense.weight 20x12", "vit.encoder.layer.0.output.dense.weight 12x20",
        "vit.encoder.layer.0.layernorm_before.weight 12", "vit.encoder.layer.0.layernorm_after.bias 12",
        "vit.layernorm.weight 12", "classifier.weight 5x12"})
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
}

// Hugging Face's ViTForImageClassification has as many, with the same configurations.
TEST(ViT, PresetsHaveTheKnownNumbersOfParameters) {
  const FreshRank rank;
  EXPECT_EQ(ViTForImageClassification(ViTConfig::base()).parameter_count(), 86'567'656);
  EXPECT_EQ(ViTForImageClassification(ViTConfig::large()).parameter_count(), 304'326'632);
}

TEST(ViT, TheConfigurationIsReadAndWrittenBack) {
  ViTConfig config = ViTConfig::from_json(R"({"model_type": "vit", "hidden_size": 24, "num_attention_heads": 2,
      "image_size": [13, 8], "patch_size": 4, "qkv_bias": false, "encoder_stride": 16, "pooler_act": "tanh",
      "pooler_output_size": 24, "id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}})");
  EXPECT_EQ(config.num_labels, 3);
  EXPECT_EQ(config.patch_rows() * config.patch_columns(), 6);
  EXPECT_FALSE(config.qkv_bias);
  const std::string text = config.to_json();
  EXPECT_NE(text.find("\"patch_size\": 4"), std::string::npos) << text;
  EXPECT_NE(text.find("encoder_stride"), std::string::npos);
  EXPECT_THROW(ViTConfig::from_json(R"({"patch_size": 300})"), Error);
  EXPECT_THROW(ViTConfig::from_json(R"({"num_attention_heads": 5})"), Error);
  EXPECT_THROW(ViTConfig::from_json(R"({"image_sizes": 4})"), Error);
}

TEST(ViT, ImagesOfAnotherSizeAreAnError) {
  const FreshRank rank;
  ViTForImageClassification model(small_vit());
  try {
    (void)model.logits(varied({2, 3, 13, 9}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ViT takes images [n, 3, 13, 8], got f64[2,3,13,9]"), std::string::npos);
  }
}

TEST(ViT, GradientsAgreeWithFiniteDifferences) {
  const FreshRank rank;
  ViTForImageClassification model(small_vit());
  expect_gradients(model, [&] { return model(varied({3, 3, 13, 8}), varied_ids({3}, 5)); });
}

TEST(ViT, TrainingIsTheSameOnEveryMesh) {
  const auto run = [&](const std::string& text) {
    manual_seed(4);
    ViTConfig config = small_vit();
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.2;
    ViTForImageClassification model(config);
    const Mesh mesh = Mesh::parse(text);
    if (mesh.has_axis("model")) shard_tensor_parallel(model, mesh, "model");
    return trained_values(model, [&](int step) {
      const Tensor x = varied({5, 3, 13, 8}, step);
      if (mesh.has_axis("data")) mark_sharding(x, mesh, {"data", {}, {}, {}});
      return model(x, varied_ids({5}, 5, step));
    });
  };
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = run("data=1");
  }
  for (const char* mesh : testing::cases_of<const char*>({"data=2,model=3", "data=3", "model=4"}))
    on_ranks(static_cast<int>(Mesh::parse(mesh).device_count()), [&](int) { expect_close(run(mesh), expected, mesh); });
}

}  // namespace
}  // namespace tessera::nn

// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/resnet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "module_checks.h"
#include "tessera/base/json_object.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera::nn {
namespace {

ResNetConfig small_resnet(const std::string& layer_type) {
  ResNetConfig config = ResNetConfig::tiny(5);
  config.layer_type = layer_type;
  config.dtype = DType::kF64;
  return config;
}

TEST(ResNet, NamesAndShapesAreThoseOfHuggingFace) {
  const FreshRank rank;
  ResNetForImageClassification model(small_resnet("basic"));
  const auto names = names_of(model);
  for (const char* name :
       {"resnet.embedder.embedder.convolution.weight 8x3x7x7", "resnet.embedder.embedder.normalization.weight 8",
        "resnet.encoder.stages.0.layers.0.layer.0.convolution.weight 8x8x3x3",
        "resnet.encoder.stages.1.layers.0.shortcut.convolution.weight 12x8x1x1",
        "resnet.encoder.stages.1.layers.0.shortcut.normalization.running_var 12",
        "resnet.encoder.stages.1.layers.1.layer.1.normalization.num_batches_tracked", "classifier.1.weight 5x12",
        "classifier.1.bias 5"})
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  EXPECT_EQ(std::count_if(names.begin(), names.end(),
                          [](const auto& n) { return n.find("stages.0.layers.0.shortcut") != std::string::npos; }),
            0);
  ResNetForImageClassification bottleneck(small_resnet("bottleneck"));
  const auto more = names_of(bottleneck);
  for (const char* name : {"resnet.encoder.stages.1.layers.0.layer.0.convolution.weight 3x8x1x1",
                           "resnet.encoder.stages.1.layers.0.layer.1.convolution.weight 3x3x3x3",
                           "resnet.encoder.stages.1.layers.0.layer.2.convolution.weight 12x3x1x1"})
    EXPECT_TRUE(std::find(more.begin(), more.end(), name) != more.end()) << name;
}

// The numbers of parameters that torchvision and Hugging Face report.
TEST(ResNet, PresetsHaveTheKnownNumbersOfParameters) {
  const FreshRank rank;
  EXPECT_EQ(ResNetForImageClassification(ResNetConfig::resnet18()).parameter_count(), 11'689'512);
  EXPECT_EQ(ResNetForImageClassification(ResNetConfig::resnet50()).parameter_count(), 25'557'032);
}

TEST(ResNet, TheConfigurationIsReadAndWrittenBack) {
  const std::string text = R"({"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
    "depths": [1, 2], "hidden_sizes": [8, 16], "layer_type": "basic", "embedding_size": 4, "hidden_act": "relu",
    "num_channels": 1, "downsample_in_first_stage": true, "id2label": {"0": "cat", "1": "dog", "2": "cow"},
    "label2id": {"cat": 0, "dog": 1, "cow": 2}, "stage_names": ["stem", "stage1", "stage2"], "out_features": ["stage2"],
    "out_indices": [2], "dtype": "float32", "transformers_version": "5.0.0"})";
  ResNetConfig config = ResNetConfig::from_json(text);
  EXPECT_EQ(config.num_labels, 3);
  EXPECT_EQ(config.hidden_sizes, (std::vector<std::int64_t>{8, 16}));
  EXPECT_TRUE(config.downsample_in_first_stage);
  config.depths = {2, 2};
  const JsonObject written = JsonObject::parse(config.to_json());
  std::vector<std::int64_t> depths;
  written.read("depths", depths);
  EXPECT_EQ(depths, (std::vector<std::int64_t>{2, 2}));
  EXPECT_NE(config.to_json().find("\"cow\""), std::string::npos);
  EXPECT_NE(config.to_json().find("stage_names"), std::string::npos);
  EXPECT_EQ(ResNetConfig::from_json(ResNetConfig::resnet18(7).to_json()).num_labels, 7);
}

TEST(ResNet, WrongConfigurationsAreRefusedWithAReason) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      ResNetConfig::from_json(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(R"({"depth": [1, 1]})").find("unknown key \"depth\"; did you mean \"depths\"?"), std::string::npos);
  EXPECT_NE(message(R"({"depths": [1, 1]})").find("one entry for each stage, got 4 and 2 entries"), std::string::npos);
  EXPECT_NE(message(R"({"layer_type": "wide"})").find("layer_type must be \"basic\" or \"bottleneck\", got \"wide\""),
            std::string::npos);
  EXPECT_NE(message(R"({"hidden_act": "rellu"})").find("unknown hidden_act \"rellu\"; did you mean \"relu\"?"),
            std::string::npos);
  EXPECT_NE(message(R"({"model_type": "vit"})").find("model_type must be \"resnet\", got \"vit\""), std::string::npos);
  EXPECT_NE(message(R"({"depths": [1, "a"]})").find("depths must be a list of integers"), std::string::npos);
}

TEST(ResNet, GradientsAgreeWithFiniteDifferences) {
  for (const char* type : {"basic", "bottleneck"}) {
    const FreshRank rank;
    ResNetForImageClassification model(small_resnet(type));
    const Tensor labels = varied_ids({3}, 5);
    expect_gradients(
        model,
        [&] {
          return model(varied({3, 3, 21, 19}), labels);
        },
        1e-6);
  }
}

TEST(ResNet, EvaluationUsesRunningStatisticsAndTrainingThoseOfTheBatch) {
  const FreshRank rank;
  ResNetForImageClassification model(small_resnet("basic"));
  const Tensor x = varied({4, 3, 17, 17});
  const auto training = model.logits(x).to_vector<double>();
  model.eval();
  const auto evaluation = model.logits(x).to_vector<double>();
  EXPECT_GT(std::fabs(training[0] - evaluation[0]), 1e-6);
  EXPECT_EQ(model.logits(x).to_vector<double>(), evaluation);
}

struct Layout {
  const char* mesh;
  PartitionSpec images;
  bool tensor_parallel = false;
};

// Images of 21 x 19 are divided by rows and columns: no stage divides evenly.
TEST(ResNet, TrainingIsTheSameUnderDataSpatialAndTensorSharding) {
  for (const char* type : {"basic", "bottleneck"}) {
    const auto run = [&](const Layout* layout) {
      manual_seed(4);
      ResNetForImageClassification model(small_resnet(type));
      const Mesh mesh = Mesh::parse(layout != nullptr ? layout->mesh : "data=1");
      if (layout != nullptr && layout->tensor_parallel) shard_tensor_parallel(model, mesh, "model");
      return trained_values(model, [&](int step) {
        const Tensor x = varied({5, 3, 21, 19}, step);
        if (layout != nullptr) mark_sharding(x, mesh, layout->images);
        return model(x, varied_ids({5}, 5, step));
      });
    };
    std::vector<double> expected;
    {
      const FreshRank rank;
      expected = run(nullptr);
    }
    const std::vector<Layout> basic = {{"data=2", {"data", {}, {}, {}}},
                                       {"rows=3", {{}, {}, "rows", {}}},
                                       {"data=2,model=3", {"data", {}, {}, {}}, true}};
    const std::vector<Layout> bottleneck = {{"rows=2,columns=2", {{}, {}, "rows", "columns"}},
                                            {"data=2,rows=3", {"data", {}, "rows", {}}},
                                            {"model=4", {{}, {}, {}, {}}, true}};
    const std::vector<Layout>& layouts = std::string(type) == "basic" ? basic : bottleneck;
    for (const Layout& layout : layouts)
      on_ranks(static_cast<int>(Mesh::parse(layout.mesh).device_count()),
               [&](int) { expect_close(run(&layout), expected, std::string(type) + " " + layout.mesh); });
  }
}

}  // namespace
}  // namespace tessera::nn

// SPDX-License-Identifier: Apache-2.0
// Folders of one BERT that load into another: with a prefix more or less, with other heads, with old names.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/resnet.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

using testing::TemporaryFolder;

std::vector<float> floats_of(const nn::Module& module, const std::string& name) {
  return module.parameter(name).to_vector<float>();
}

TEST(BertFolders, TheFolderOfAMaskedLanguageModelLoadsIntoTheOthers) {
  const FreshRank rank;
  const TemporaryFolder folder;
  nn::BertForMaskedLM model(nn::BertConfig::tiny());
  save_pretrained(model, folder.file("mlm"));
  const std::string query = "encoder.layer.1.attention.self.query.weight";

  nn::BertModel body(nn::BertConfig::tiny(), {.pooler = false});
  load_pretrained(body, folder.file("mlm"));
  EXPECT_EQ(floats_of(body, query), floats_of(model, "bert." + query));

  nn::BertForSequenceClassification classifier(nn::BertConfig::tiny());
  const LoadStateResult result = load_pretrained(classifier, folder.file("mlm"), {.strict = false});
  EXPECT_EQ(result.missing_keys, (std::vector<std::string>{"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                                           "classifier.weight", "classifier.bias"}));
  EXPECT_TRUE(result.unexpected_keys.empty());
  EXPECT_EQ(floats_of(classifier, "bert." + query), floats_of(model, "bert." + query));

  save_pretrained(body, folder.file("body"));
  nn::BertForMaskedLM again(nn::BertConfig::tiny());
  load_pretrained(again, folder.file("body"), {.strict = false});
  EXPECT_EQ(floats_of(again, "bert." + query), floats_of(model, "bert." + query));
}

TEST(BertFolders, OldNamesOfNormsAreRead) {
  const FreshRank rank;
  const TemporaryFolder folder;
  const nn::BertModel model(nn::BertConfig::tiny());
  save_pretrained(model, folder.file("new"));
  SafetensorsFile file = read_safetensors(folder.file("new/model.safetensors"));
  for (auto& [name, value] : file.tensors) {
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
  }
  (void)folder.write("old/config.json", model.config_json());
  write_safetensors(folder.file("old/model.safetensors"), file);
  const auto read = from_pretrained(folder.file("old"));
  EXPECT_EQ(read->class_name(), "BertModel");
  EXPECT_EQ(floats_of(*read, "embeddings.LayerNorm.weight"), floats_of(model, "embeddings.LayerNorm.weight"));
}

TEST(ResNetFolders, BuffersAreSavedAndLoaded) {
  const FreshRank rank;
  const TemporaryFolder folder;
  nn::ResNetForImageClassification model(nn::ResNetConfig::tiny());
  const std::vector<float> pixels(2 * 3 * 16 * 16, 0.25F);
  (void)model.logits(Tensor::from<float>({2, 3, 16, 16}, pixels));
  mark_step();
  save_pretrained(model, folder.file("resnet"));
  const auto read = from_pretrained(folder.file("resnet"));
  const auto buffers = model.named_buffers();
  const auto again = read->named_buffers();
  ASSERT_EQ(buffers.size(), again.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(buffers[i].name, again[i].name);
    EXPECT_TRUE(buffers[i].tensor.to_host() == again[i].tensor.to_host()) << buffers[i].name;
  }
  EXPECT_EQ(buffers[2].tensor.item(), 1);  // num_batches_tracked
}

}  // namespace
}  // namespace tessera

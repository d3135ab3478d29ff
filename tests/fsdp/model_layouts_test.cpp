// SPDX-License-Identifier: Apache-2.0
// BERT, ViT and ResNet under FSDP, alone and with tensor parallelism or sharded images, equal one rank.
#include <gtest/gtest.h>

#include "nn/module_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/resnet.h"
#include "tessera/nn/models/vit.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kBatch = 5;

// Shards dim 0 over the axes data and fsdp, and dim 2 over rows.
Tensor placed(const Tensor& x, const Mesh& mesh) {
  SpecEntry batch;
  for (const auto& axis : mesh.axes())
    if (axis.name == "data" || axis.name == "fsdp") batch.push_back(axis.name);
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(x.ndim()));
  if (!batch.empty()) entries.front() = PartitionSpec::Entry(batch);
  if (x.ndim() == 4 && mesh.has_axis("rows")) entries[2] = PartitionSpec::Entry("rows");
  mark_sharding(x, mesh, PartitionSpec(std::move(entries)));
  return x;
}

template <class Model, class Loss>
std::vector<double> course(Model& model, const std::string& text, Loss loss) {
  const Mesh mesh = Mesh::parse(text);
  set_default_mesh(mesh);
  if (mesh.has_axis("model")) shard_tensor_parallel(model, mesh, "model");
  if (mesh.has_axis("fsdp")) {
    const auto units = fully_shard(model, {.mesh = mesh});
    EXPECT_GT(units.size(), 1U);
  }
  return trained_values(model, [&](int step) { return loss(mesh, step); });
}

std::vector<double> bert_course(const std::string& mesh_text) {
  manual_seed(6);
  BertConfig config = BertConfig::tiny(13);
  config.hidden_size = 12;
  config.num_attention_heads = 3;
  config.dtype = DType::kF64;
  config.initializer_range = 0.2;
  BertForMaskedLM model(config);
  return course(model, mesh_text, [&](const Mesh& mesh, int step) {
    const BertInputs inputs{placed(varied_ids({kBatch, 6}, 13, step), mesh), placed(varied_ids({kBatch, 6}, 2), mesh),
                            placed(varied_ids({kBatch, 6}, 2, 1), mesh)};
    return model(inputs, placed(varied_ids({kBatch, 6}, 13, 2 + step), mesh));
  });
}

std::vector<double> vit_course(const std::string& mesh_text) {
  manual_seed(6);
  ViTConfig config = ViTConfig::tiny(5);
  config.hidden_size = 12;
  config.num_attention_heads = 3;
  config.dtype = DType::kF64;
  ViTForImageClassification model(config);
  return course(model, mesh_text, [&](const Mesh& mesh, int step) {
    return model(placed(varied({kBatch, 3, 12, 12}, step), mesh), varied_ids({kBatch}, 5, step));
  });
}

std::vector<double> resnet_course(const std::string& mesh_text) {
  manual_seed(6);
  ResNetConfig config = ResNetConfig::tiny(5);
  config.dtype = DType::kF64;
  ResNetForImageClassification model(config);
  return course(model, mesh_text, [&](const Mesh& mesh, int step) {
    return model(placed(varied({kBatch, 3, 17, 15}, step), mesh), varied_ids({kBatch}, 5, step));
  });
}

void expect_layouts(std::vector<double> (*run)(const std::string&), const std::vector<std::string>& meshes) {
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = run("data=1");
  }
  for (const std::string& mesh : meshes)
    on_ranks(static_cast<int>(Mesh::parse(mesh).device_count()), [&](int) { expect_close(run(mesh), expected, mesh); });
}

TEST(FullyShard, BertTrainsAlikeOnEveryMesh) { expect_layouts(bert_course, {"fsdp=4", "fsdp=3,model=2"}); }
TEST(FullyShard, ViTTrainsAlikeOnEveryMesh) { expect_layouts(vit_course, {"fsdp=3", "data=2,fsdp=3"}); }
TEST(FullyShard, ResNetTrainsAlikeOnEveryMesh) { expect_layouts(resnet_course, {"fsdp=3", "fsdp=2,rows=3"}); }

}  // namespace
}  // namespace tessera::nn

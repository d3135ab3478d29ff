// SPDX-License-Identifier: Apache-2.0
// A transformer trains alike on every mesh, with masks and dropout.
#include <gtest/gtest.h>

#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/transformer/transformer.h"

namespace tessera::nn {
namespace {

// Heads and inner units over `model`.
void shard_attention(MultiheadAttention& attention, const Mesh& mesh) {
  mark_sharding(attention.in_proj_weight(), mesh, {{}, "model", {}, {}});
  mark_sharding(attention.out_proj().weight(), mesh, {{}, "model"});
}
template <class Layer>
void shard_layer(Layer& layer, const Mesh& mesh) {
  shard_attention(layer.self_attn(), mesh);
  mark_sharding(layer.linear1().weight(), mesh, {"model", {}});
  mark_sharding(layer.linear2().weight(), mesh, {{}, "model"});
}

// Odd sizes: 5 rows, 7 and 3 time steps, 3 heads, 7 inner units.
Numbers trained_transformer(const std::string& mesh_text, const std::string& rows) {
  const Mesh mesh = Mesh::parse(mesh_text);
  Transformer model(6, 3, 2, 1, {.dim_feedforward = 7, .dropout = 0.2, .batch_first = true, .dtype = kF64});
  if (mesh.size() > 1) {
    for (const auto& layer : model.encoder().layers()) shard_layer(*layer, mesh);
    for (const auto& layer : model.decoder().layers()) {
      shard_layer(*layer, mesh);
      shard_attention(layer->multihead_attn(), mesh);
    }
  }
  return trained_values(model, [&](int step) {
    const Tensor src = varied({5, 7, 6}, step), tgt = varied({5, 3, 6}, 0.3 + step);
    const Tensor padding = varied_ids({5, 7}, 4) == 0.0;
    mark_sharding(src, mesh, PartitionSpec::parse(rows));
    mark_sharding(tgt, mesh, PartitionSpec::parse(rows));
    const Tensor y = model(
        src, tgt,
        TransformerMasks{.src_key_padding_mask = padding, .memory_key_padding_mask = padding, .tgt_is_causal = true});
    return mean(square(y - varied(y.dims(), 0.8)));
  });
}

TEST(TransformerLayouts, TrainAsOneRank) {
  Numbers expected;
  {
    const FreshRank rank;
    expected = trained_transformer("data=1,model=1", "data,-,-");
  }
  for (const auto& [mesh, rows] :
       {std::pair{"data=2,model=3", "data,-,-"}, std::pair{"data=6,model=1", "data,-,-"},
        std::pair{"data=2,model=3", "-,data,-"}, std::pair{"data=3,model=2", "data,model,-"}})
    on_ranks(6, [&, mesh = mesh, rows = rows](int) {
      expect_close(trained_transformer(mesh, rows), expected, std::string(mesh) + " " + rows);
    });
}

}  // namespace
}  // namespace tessera::nn

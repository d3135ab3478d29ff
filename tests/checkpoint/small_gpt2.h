// SPDX-License-Identifier: Apache-2.0
// A GPT-2 with odd sizes, and steps that train it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/execution/runtime.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"

namespace tessera {

inline nn::GPT2Config small_gpt2() {
  nn::GPT2Config config;
  config.vocab_size = 29;
  config.n_positions = 7;
  config.n_embd = 12;
  config.n_layer = 2;
  config.n_head = 3;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0;
  return config;
}

/// Ranks, and what is sharded over their mesh.
struct Layout {
  int ranks;
  std::string mesh;
  bool fsdp;
  bool tensor_parallel;
};

inline void shard(nn::GPT2LMHeadModel& model, const Layout& layout) {
  const Mesh mesh = Mesh::parse(layout.mesh, layout.ranks);
  set_default_mesh(mesh);
  if (layout.tensor_parallel) shard_tensor_parallel(model, mesh, "model");
  if (layout.fsdp) fully_shard(model, {.mesh = mesh});
}

/// The complete values by name. Collective.
inline std::map<std::string, Literal> values_of(const nn::Module& module) {
  std::map<std::string, Literal> out;
  for (const auto& entry : module.state_dict().entries()) out.emplace(entry.name, entry.tensor.to_host());
  return out;
}

/// One update on tokens that depend on `number`.
inline void train_step(nn::GPT2LMHeadModel& model, optim::Optimizer& optimizer, int number) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 6 * 7; ++i) tokens.push_back((i * i + number) % 29);
  const Tensor batch = Tensor::from<std::int32_t>({6, 7}, tokens);
  model.zero_grad();
  model(batch, batch).backward();
  optimizer.step();
  mark_step();
}

}  // namespace tessera

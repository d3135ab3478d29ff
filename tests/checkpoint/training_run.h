// SPDX-License-Identifier: Apache-2.0
// A training that is saved and continued.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/small_gpt2.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/fsdp/fsdp.h"

namespace tessera {

// The chain of ranks, meshes and FSDP modes.
inline const std::vector<Layout> kChain = {{8, "data=2,fsdp=4", true, false}, {3, "model=3", false, true},
                                           {6, "fsdp=2,model=3", true, true}, {1, "data=1", false, false},
                                           {4, "fsdp=4", true, false},        {2, "data=2", false, false}};

struct Training {
  Training(const Layout& layout, std::uint64_t seed) : model(config()) {
    manual_seed(seed);
    shard(model, layout);
    optimizer = std::make_unique<optim::AdamW>(model.parameters(),
                                               optim::AdamWOptions{.learning_rate = 0.01, .weight_decay = 0.1});
  }
  static nn::GPT2Config config() {
    nn::GPT2Config out = small_gpt2();
    out.dtype = DType::kF64;
    return out;
  }
  [[nodiscard]] CheckpointContent content() const {
    CheckpointContent out;
    out.states["model"] = model.state_dict();
    out.states["optimizer"] = optimizer->state_dict();
    JsonObject run;
    run.set("steps", optimizer->step_count());
    out.documents.emplace("run", run);
    return out;
  }
  [[nodiscard]] std::map<std::string, StateDict> states() const { return content().states; }
  // `read` gives the states the values of a checkpoint.
  void load(const std::function<void(const std::map<std::string, StateDict>&)>& read) { read(states()); }
  void load(const Checkpoint& from) {
    load([&](const auto& all) {
      for (const auto& [group, state] : all) from.load(group, state);
    });
  }
  nn::GPT2LMHeadModel model;
  std::unique_ptr<optim::Optimizer> optimizer;
};

}  // namespace tessera

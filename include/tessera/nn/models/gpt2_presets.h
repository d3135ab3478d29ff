// SPDX-License-Identifier: Apache-2.0
// GPT-2 in the sizes of its paper, and in the six sizes that PyTorch/XLA's report on FSDP measures on TPU v4 pods.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/nn/models/gpt2.h"

namespace tessera::nn {

/// A named size of GPT-2.
struct GPT2Preset {
  std::string_view name;          // gpt2-xl, 2b
  std::int64_t width = 0;         // n_embd
  std::int64_t layers = 0;        // n_layer
  std::int64_t heads = 0;         // n_head
  std::int64_t cores = 0;         // of the report: 2 for each chip; 0: not in the report
  std::int64_t batch_tokens = 0;  // of the report: tokens of a step
};

/// gpt2, gpt2-medium, gpt2-large, gpt2-xl; 2b, 16b, 20b, 32b, 64b, 128b. The shape of 2b is the published one. The
/// others have heads of size 128, and their numbers of parameters differ by at most 2% from their names.
std::span<const GPT2Preset> gpt2_presets();
/// Error for an unknown name, with the nearest one.
const GPT2Preset& gpt2_preset(std::string_view name);
/// The configuration of a preset. Its other fields are those of GPT-2.
GPT2Config gpt2_config(const GPT2Preset& preset);
/// The number of parameters of GPT2LMHeadModel. Does not create a model.
std::int64_t parameter_count(const GPT2Config& config);

}  // namespace tessera::nn

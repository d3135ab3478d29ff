// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/gpt2_presets.h"

#include <fmt/ranges.h>

#include <array>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::nn {
namespace {

constexpr std::array<GPT2Preset, 10> kPresets = {{
    {"gpt2", 768, 12, 12, 0, 0},
    {"gpt2-medium", 1024, 24, 16, 0, 0},
    {"gpt2-large", 1280, 36, 20, 0, 0},
    {"gpt2-xl", 1600, 48, 25, 0, 0},
    {"2b", 3072, 18, 24, 8, 131'072},
    {"16b", 5120, 50, 40, 64, 524'288},
    {"20b", 5632, 52, 44, 128, 524'288},
    {"32b", 7168, 51, 56, 128, 524'288},
    {"64b", 8704, 70, 68, 256, 1'048'576},
    {"128b", 11264, 84, 88, 512, 1'048'576},
}};

}  // namespace

std::span<const GPT2Preset> gpt2_presets() { return kPresets; }

const GPT2Preset& gpt2_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const GPT2Preset& preset : kPresets) {
    if (preset.name == name) return preset;
    names.emplace_back(preset.name);
  }
  fail("no preset of GPT-2 is called {}{}; the presets are {}", name, suggest_name(std::string(name), names),
       fmt::join(names, ", "));
}

GPT2Config gpt2_config(const GPT2Preset& preset) {
  GPT2Config config;
  config.n_embd = preset.width;
  config.n_layer = preset.layers;
  config.n_head = preset.heads;
  return config;
}

std::int64_t parameter_count(const GPT2Config& config) {
  const std::int64_t c = config.n_embd;
  const std::int64_t block = 4 * c * c + 2 * c * config.inner() + 9 * c + config.inner();
  const std::int64_t head = config.tie_word_embeddings ? 0 : config.vocab_size * c;
  return (config.vocab_size + config.n_positions) * c + config.n_layer * block + 2 * c + head;
}

}  // namespace tessera::nn

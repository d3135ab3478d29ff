// SPDX-License-Identifier: Apache-2.0
// The same GPT-2 blocks one after the other and in a loop.
#pragma once

#include <cstdlib>

#include "tessera/nn/models/gpt2.h"
#include "tessera/nn/scan_layers.h"

namespace tessera::bench {

constexpr std::int64_t kPositions = 64;

/// The number in an environment variable.
inline std::int64_t size_of(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

/// TESSERA_BENCH_WIDTH is the width of a block.
inline nn::GPT2Config block_config() {
  nn::GPT2Config config;
  config.n_embd = size_of("TESSERA_BENCH_WIDTH", 64);
  config.n_head = 4;
  config.n_positions = kPositions;
  config.attn_pdrop = config.resid_pdrop = config.embd_pdrop = 0;
  return config;
}

class Unrolled : public nn::Callable<Unrolled> {
 public:
  explicit Unrolled(std::int64_t layers) {
    for (std::int64_t i = 0; i < layers; ++i) h_.emplace(block_config());
    add_module("h", h_);
  }
  Tensor forward(Tensor x) {
    for (auto& block : h_) x = (*block)(x);
    return x;
  }
  [[nodiscard]] std::string_view class_name() const override { return "Unrolled"; }

 private:
  nn::ModuleList<nn::GPT2Block> h_;
};

class Scanned : public nn::Callable<Scanned> {
 public:
  explicit Scanned(std::int64_t layers) : h_(layers, block_config()) { add_module("h", h_); }
  Tensor forward(const Tensor& x) { return h_(x); }
  [[nodiscard]] std::string_view class_name() const override { return "Scanned"; }

 private:
  nn::ScanLayers<nn::GPT2Block> h_;
};

}  // namespace tessera::bench

// SPDX-License-Identifier: Apache-2.0
// The training step of layers in a loop (nn::ScanLayers) and of the same layers one after the other, on ranks of several
// nodes with FSDP. Each with and without overlap of communication and computation, in turn. Rank 0 prints one line of
// JSON for each variant, with the median of the times of its steps.
//
//   TESSERA_BENCH_WIDTH=512 TESSERA_TEST_RATE=1gbit tests/collectives/namespaces.sh mpiexec 2 build/release/bin/scan_between_nodes
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "layers.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/rendezvous.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

using bench::block_config;
using bench::kPositions;
using bench::Scanned;
using bench::size_of;
using bench::Unrolled;

class Variant {
 public:
  virtual ~Variant() = default;
  virtual double step() = 0;  // returns the loss
};

template <class M>
class Training final : public Variant {
 public:
  explicit Training(const Mesh& mesh)
      : model_(size_of("TESSERA_BENCH_LAYERS", 6)),
        units_(fully_shard(model_, {.mesh = mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"GPT2Block"})})),
        optimizer_(model_.parameters(), {.learning_rate = 1e-4}),
        step_([this](const auto& in) {
          const Tensor y = model_(in[0]);
          const Tensor loss = mean(y * y);
          loss.backward();
          optimizer_.step();
          optimizer_.zero_grad();
          return std::vector<Tensor>{loss};
        }) {
    const Dims dims{size_of("TESSERA_BENCH_ROWS", 8), kPositions, block_config().n_embd};
    std::vector<float> values(static_cast<std::size_t>(dims[0] * dims[1] * dims[2]));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) / 17 - 0.5F;
    x_ = Tensor::from<float>(dims, values);
    mark_sharding(x_, mesh, {"fsdp", {}, {}});
  }
  double step() override { return step_({x_}).front().item(); }

 private:
  M model_;
  std::vector<FsdpUnit> units_;
  optim::AdamW optimizer_;
  CompiledFunction step_;
  Tensor x_;
};

struct Measured {
  std::string name;
  bool overlap = false;
  std::unique_ptr<Variant> training = nullptr;
  std::vector<double> seconds = {};
  double loss = 0;
};

int run() {
  const Mesh mesh({{"fsdp", device_count()}});
  std::vector<Measured> variants;
  for (const bool overlap : {false, true})
    for (const std::string_view name : {"unrolled", "loop"}) variants.push_back({std::string(name), overlap});
  const std::int64_t steps = size_of("TESSERA_BENCH_STEPS", 7);
  for (std::int64_t i = -2; i < steps; ++i)  // the first two are not measured
    for (Measured& one : variants) {
      options().set("TESSERA_OVERLAP", one.overlap ? "1" : "0");
      if (!one.training) manual_seed(5);  // equal losses
      if (!one.training && one.name == "loop") one.training = std::make_unique<Training<Scanned>>(mesh);
      if (!one.training) one.training = std::make_unique<Training<Unrolled>>(mesh);
      const auto begin = std::chrono::steady_clock::now();
      one.loss = one.training->step();
      if (i >= 0)
        one.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  for (Measured& one : variants) {
    std::sort(one.seconds.begin(), one.seconds.end());
    if (is_master_ordinal({.local = false}))
      fmt::print(
          "{{\"layers\": \"{}\", \"overlap\": {}, \"median_ms\": {:.1f}, \"least_ms\": {:.1f}, \"loss\": {:.6f}}}\n",
          one.name, one.overlap, 1e3 * one.seconds[one.seconds.size() / 2], 1e3 * one.seconds.front(), one.loss);
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::launch(argc, argv, [](int, char**) { return tessera::run(); });
}

// SPDX-License-Identifier: Apache-2.0
// Layers in a loop (nn::ScanLayers) beside the same layers one after the other: the time until the first training step
// has been traced and compiled, and the time of a step.
//
//   scan_layers_bench --benchmark_out=scan_layers.json --benchmark_out_format=json
//
// `compile` plans a program of GPT-2 blocks, forward, backward and AdamW. `step` runs it. TESSERA_BENCH_WIDTH and
// TESSERA_BENCH_ROWS change the size of a block and of the batch.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>

#include "layers.h"
#include "tessera/base/rank_context.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

using bench::block_config;
using bench::Scanned;
using bench::size_of;
using bench::Unrolled;

// A model with its optimizer, as a compiled function.
template <class M>
class Training {
 public:
  Training(std::int64_t layers, std::int64_t rows)
      : model_(layers), optimizer_(model_.parameters(), {.learning_rate = 1e-4}), step_([this](const auto& in) {
          const Tensor y = model_(in[0]);
          const Tensor loss = mean(y * y);
          loss.backward();
          optimizer_.step();
          optimizer_.zero_grad();
          return std::vector<Tensor>{loss};
        }) {
    const Dims dims{rows, 64, block_config().n_embd};
    std::vector<float> values(static_cast<std::size_t>(dims[0] * dims[1] * dims[2]));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) / 17 - 0.5F;
    x_ = Tensor::from<float>(dims, values);
  }
  // Computes the initial values, which are not part of a compilation.
  void prepare() {
    for (const Tensor& parameter : model_.parameters()) (void)stored_shard(parameter);
    for (const auto& state : optimizer_.named_state()) (void)stored_shard(state.tensor);
  }
  void step() { benchmark::DoNotOptimize(step_({x_})); }

 private:
  M model_;
  optim::AdamW optimizer_;
  CompiledFunction step_;
  Tensor x_;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::int64_t row_count() { return size_of("TESSERA_BENCH_ROWS", 2); }

// The first step traces, compiles and runs; the second one only runs. The steps of another program make the rank allocate
// its memory before.
template <class M>
double seconds_to_compile(std::int64_t layers) {
  RankContext context(0, 1);
  const RankScope scope(context);
  Training<M> before(layers, row_count() + 1);
  for (int i = 0; i < 2; ++i) before.step();
  Training<M> training(layers, row_count());
  training.prepare();
  const auto first = Clock::now();
  training.step();
  const double both = seconds_since(first);
  const auto second = Clock::now();
  training.step();
  return both - seconds_since(second);
}

void compile(benchmark::State& state) {
  for (auto _ : state) {
    const bool scan = state.range(1) != 0;
    state.SetIterationTime(scan ? seconds_to_compile<Scanned>(state.range(0))
                                : seconds_to_compile<Unrolled>(state.range(0)));
  }
}
BENCHMARK(compile)
    ->ArgNames({"layers", "scan"})
    ->ArgsProduct({{4, 48}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

template <class M>
void run_steps(benchmark::State& state) {
  RankContext context(0, 1);
  const RankScope scope(context);
  Training<M> training(state.range(0), row_count());
  for (int i = 0; i < 2; ++i) training.step();
  for (auto _ : state) training.step();
  state.counters["peak_MB"] = static_cast<double>(memory_info().peak) / 1e6;
}
void step(benchmark::State& state) {
  if (state.range(1) != 0)
    run_steps<Scanned>(state);
  else
    run_steps<Unrolled>(state);
}
BENCHMARK(step)
    ->ArgNames({"layers", "scan"})
    ->ArgsProduct({{4, 48}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();

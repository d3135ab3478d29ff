// SPDX-License-Identifier: Apache-2.0
// The time of an executed training step of a small GPT-2 on virtual ranks: tied head, dropout, clipping, AdamW.
//
//   training_bench --benchmark_out=training.json --benchmark_out_format=json
#include <benchmark/benchmark.h>

#include <time.h>

#include <algorithm>
#include <chrono>

#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

struct Size {
  std::int64_t layers, width, heads, vocabulary, time, rows;
};
constexpr Size kSmoke{1, 16, 2, 32, 8, 4};
constexpr Size kSmall{4, 128, 4, 256, 64, 16};

class Training {
 public:
  Training(const Size& size, const Mesh& mesh) : size_(size), mesh_(mesh), model_(config_of(size)) {
    set_default_mesh(mesh);
    if (mesh.device_count() > 1) {
      nn::shard_tensor_parallel(model_, mesh, "model");
      fully_shard(model_, {.mesh = mesh});
    }
    optimizer_ = std::make_unique<optim::AdamW>(model_.parameters(), optim::AdamWOptions{.learning_rate = 3e-4});
  }
  double step() { return record().item(); }
  // Does not read the loss.
  Tensor record() {
    const Tensor tokens = Tensor::from<std::int32_t>(
        {size_.rows, size_.time}, std::vector<std::int32_t>(static_cast<std::size_t>(size_.rows * size_.time), 1));
    mark_sharding(tokens, mesh_, {"fsdp", {}});
    Tensor loss = model_(tokens, tokens);
    loss.backward();
    optim::clip_grad_norm(model_.parameters(), 1.0);
    optimizer_->step();
    optimizer_->zero_grad();
    mark_step();
    return loss;
  }

 private:
  static nn::GPT2Config config_of(const Size& size) {
    nn::GPT2Config config;
    config.n_layer = size.layers, config.n_embd = size.width, config.n_head = size.heads;
    config.vocab_size = size.vocabulary, config.n_positions = size.time;
    return config;
  }
  Size size_;
  Mesh mesh_;
  nn::GPT2LMHeadModel model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

// All ranks run the same fixed number of steps, so that no rank waits for the decision of another one.
void train(benchmark::State& state, const Size& size, std::int64_t fsdp, std::int64_t model) {
  constexpr int kSteps = 10;
  const Mesh mesh({{"fsdp", fsdp}, {"model", model}});
  double seconds = 0;
  for (auto _ : state) {
    run_virtual_ranks(static_cast<int>(mesh.device_count()), [&](ProcessGroup& world) {
      join_world(world);
      Training training(size, mesh);
      training.step();  // compiles
      training.step();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kSteps; ++i) benchmark::DoNotOptimize(training.step());
      if (world.rank() == 0)
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kSteps;
    });
    state.SetIterationTime(seconds);
  }
  state.counters["tokens_per_second"] = static_cast<double>(size.rows * size.time) / seconds;
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Steps whose results are not read, with (TESSERA_ASYNC=1) and without overlap of tracing and execution, alternating so
// that other processes affect both equally.
void train_ahead(benchmark::State& state, const Size& size, std::int64_t fsdp) {
  constexpr int kRounds = 5;
  constexpr int kSteps = 10;
  double tracing = 1e9;
  double fastest[2] = {1e9, 1e9};
  for (auto _ : state)
    for (int round = 0; round < 2 * kRounds; ++round)
      run_virtual_ranks(static_cast<int>(fsdp), [&](ProcessGroup& world) {
        join_world(world);
        options().set("TESSERA_ASYNC", round % 2 == 0 ? "0" : "1");
        Training training(size, Mesh({{"fsdp", fsdp}, {"model", 1}}));
        training.step();
        training.step();
        world.barrier();
        const auto start = std::chrono::steady_clock::now();
        const double before = thread_seconds();
        for (int i = 0; i < kSteps; ++i) training.record();
        const double own = (thread_seconds() - before) / kSteps;
        if (world.rank() == 0 && round % 2 == 1) tracing = std::min(tracing, own);
        world.barrier();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kSteps;
        if (world.rank() == 0) fastest[round % 2] = std::min(fastest[round % 2], seconds);
      });
  state.counters["tracing_cpu_ms"] = tracing * 1e3;  // the time that can be hidden
  state.counters["in_turn_ms"] = fastest[0] * 1e3;
  state.counters["overlapped_ms"] = fastest[1] * 1e3;
}

void train_on_1_rank(benchmark::State& state, const Size& size) { train(state, size, 1, 1); }
void train_on_4_virtual_ranks(benchmark::State& state, const Size& size) { train(state, size, 2, 2); }

BENCHMARK_CAPTURE(train_on_1_rank, smoke, kSmoke)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_on_4_virtual_ranks, smoke, kSmoke)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_ahead, smoke_on_1_rank, kSmoke, 1)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_ahead, on_1_rank, kSmall, 1)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_ahead, on_2_virtual_ranks, kSmall, 2)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_on_1_rank, four_layers, kSmall)->UseManualTime()->Iterations(3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_on_4_virtual_ranks, four_layers, kSmall)
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();

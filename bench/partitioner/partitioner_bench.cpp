// SPDX-License-Identifier: Apache-2.0
// The time of partition(): a GPT-2 training step for 8, 64 and 512 devices, and a chain of 10,000 instructions.
//
//   partitioner_bench --benchmark_out=partitioner.json --benchmark_out_format=json
#include <benchmark/benchmark.h>

#include "tessera/base/rank_context.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/optim/optimizer.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

struct Size {
  std::int64_t layers, width, heads, vocabulary, time;
};
constexpr Size kSmoke{1, 64, 16, 128, 32};

// GPT-2 124M with this number of layers.
Size layers(std::int64_t count) { return {count, 768, 16, 50304, 1024}; }

Mesh mesh_of(std::int64_t devices) {
  const std::int64_t model = devices >= 64 ? 8 : 2;
  return Mesh({{"fsdp", devices / model}, {"model", model}});
}

// The global program of a training step with FSDP and tensor parallelism on fsdp x model.
Program gpt2_step(const Size& size, std::int64_t devices) {
  RankContext context(0, 1);
  const RankScope scope(context);
  plan_for_devices(devices);
  const Mesh mesh = mesh_of(devices);
  set_default_mesh(mesh);
  nn::GPT2Config config;
  config.n_layer = size.layers, config.n_embd = size.width, config.n_head = size.heads;
  config.vocab_size = size.vocabulary, config.n_positions = size.time;
  nn::GPT2LMHeadModel model(config);
  nn::shard_tensor_parallel(model, mesh, "model");
  fully_shard(model, {.mesh = mesh});
  optim::AdamW optimizer(model.parameters(), {});
  const Tensor tokens = Tensor::abstract(Type::array(DType::kS32, {2 * devices, size.time}), "tokens");
  mark_sharding(tokens, mesh, {"fsdp", {}});
  const Tensor loss = model(tokens, tokens);
  loss.backward();
  optim::clip_grad_norm(model.parameters(), 1.0);
  optimizer.step();
  optimizer.zero_grad();
  return plan_step().global;
}

// x, f(x), f(f(x)), …: alternates products with a weight and elementwise ops.
Program chain(std::int64_t instructions) {
  ProgramBuilder program("chain");
  Builder main = program.computation("main");
  const Mesh mesh({{"data", 4}, {"model", 2}});
  const Type type = Type::array(DType::kF32, {64, 64});
  Value x = ops::parameter(main, 0, type);
  const Value w = ops::parameter(main, 1, type);
  main.set_sharding(x, make_sharding(Sharding::from_spec(mesh, {"data", {}}, 2)));
  main.set_sharding(w, make_sharding(Sharding::from_spec(mesh, {{}, "model"}, 2)));
  for (std::int64_t i = 2; i < instructions; ++i)
    x = i % 10 == 0 ? ops::dot(x, w, {{}, {1}, {}, {0}}) : i % 2 == 0 ? ops::tanh(x) : ops::add(x, w);
  const ComputationId entry = program.add(std::move(main), x);
  Program out = program.finish(entry);
  out.num_partitions = mesh.device_count();
  out.meshes = {mesh};
  return out;
}

void measure(benchmark::State& state, const Program& program) {
  Partitioned parts;
  for (auto _ : state) parts = partition(program);
  state.counters["instructions"] = static_cast<double>(program.instruction_count());
  state.counters["collectives"] = static_cast<double>(parts.notes.size());
  state.counters["devices"] = static_cast<double>(program.num_partitions);
}

void partition_gpt2(benchmark::State& state, const Size& size) { measure(state, gpt2_step(size, state.range(0))); }
void partition_layers(benchmark::State& state) { measure(state, gpt2_step(layers(state.range(0)), state.range(1))); }
void partition_chain(benchmark::State& state) { measure(state, chain(state.range(0))); }

BENCHMARK_CAPTURE(partition_gpt2, smoke, kSmoke)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(partition_layers)
    ->Name("partition_gpt2/layers")
    ->ArgsProduct({{1, 2, 4, 12, 24, 48, 96}, {8, 64, 512}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(partition_chain)->Name("partition_chain/smoke")->Arg(100)->Unit(benchmark::kMillisecond);
BENCHMARK(partition_chain)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();

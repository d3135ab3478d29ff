// SPDX-License-Identifier: Apache-2.0
#include "bench_program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera::bench {
namespace {

Program program_of(const std::vector<Type>& types, const Body& body) {
  ProgramBuilder program("bench");
  Builder main = program.computation("main");
  std::vector<Value> values;
  for (std::size_t i = 0; i < types.size(); ++i)
    values.push_back(ops::parameter(main, static_cast<std::int64_t>(i), types[i]));
  const Value root = body(main, values);
  return program.finish(program.add(std::move(main), root));
}

struct Prepared {
  Prepared(const std::vector<Type>& types, const Body& body, bool fuse) {
    ExecutableOptions options;
    options.fuse = fuse;
    executable = compile(program_of(types, body), *world, options);
    for (const Type& type : types) {
      Literal literal(type);
      visit_dtype(type.dtype(), [&]<class T>() {
        for (T& element : literal.mutable_data<T>()) element = static_cast<T>(is_float(kDTypeOf<T>) ? 0.5F : 2.0F);
      });
      arguments.push_back(DeviceArray::from_literal(literal));
      bytes += type.byte_size();
    }
    for (const Type& type : executable->result_types()) bytes += type.byte_size();
  }
  void count(benchmark::State& state) const {
    const auto rounds = static_cast<double>(state.iterations());
    state.SetBytesProcessed(state.iterations() * bytes);
    state.counters["GFLOP/s"] =
        benchmark::Counter(executable->last_run().flops * rounds * 1e-9, benchmark::Counter::kIsRate);
  }

  std::shared_ptr<ProcessGroup> world = make_single_rank_world();
  std::shared_ptr<Executable> executable;
  std::vector<DeviceArray> arguments;
  std::int64_t bytes = 0;
};

template <class F>
double seconds_of(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + isize(values) / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

void run(benchmark::State& state, const std::vector<Type>& types, const Body& body, bool fuse) {
  const Prepared made(types, body, fuse);
  for (auto _ : state) benchmark::DoNotOptimize(made.executable->run(made.arguments));
  made.count(state);
}

void run_beside_copy(benchmark::State& state, const std::vector<Type>& types, const Body& body) {
  const Prepared made(types, body, true);
  const auto half = static_cast<std::size_t>(made.bytes / 2);  // a copy of n bytes reads n and writes n
  const std::vector<std::byte> from(half, std::byte{1});
  std::vector<std::byte> to(half);
  std::vector<double> ours;
  std::vector<double> copies;
  const auto step = [&] { benchmark::DoNotOptimize(made.executable->run(made.arguments)); };
  step();
  for (auto _ : state) {
    ours.push_back(seconds_of(step));
    copies.push_back(seconds_of([&] {
      std::memcpy(to.data(), from.data(), half);
      benchmark::ClobberMemory();
    }));
    state.SetIterationTime(ours.back());
  }
  made.count(state);
  state.counters["copy_us"] = median(copies) * 1e6;
  state.counters["of_copy"] = median(ours) / median(copies);
  made.executable->set_profiling(true);
  step();
  state.counters["steps"] = static_cast<double>(made.executable->profile().size());
  made.executable->set_profiling(false);
}

}  // namespace tessera::bench

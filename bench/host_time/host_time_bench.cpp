// SPDX-License-Identifier: Apache-2.0
// The time that a call of a compiled function takes on the host. Its groups have so few elements that their arithmetic
// takes no time.
//
//   host_time_bench --benchmark_out=host_time.json --benchmark_out_format=json
//
// `call_fit` prints a linear fit of the fastest calls: fixed_us and us_per_group. It does the same for calls that
// update one variable for each group, as optimizers do.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "tessera/base/rank_context.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

constexpr std::int64_t kFewest = 16;  // elements of a group: smaller views would be copied

// A function whose program runs `groups` groups. They have different sizes, so that they are not fused.
class Chain {
 public:
  Chain(std::int64_t groups, bool updates)
      : input_(ones(kFewest + groups)), function_([this, groups, updates](const std::vector<Tensor>& in) {
          Tensor x = in[0];
          for (std::int64_t i = 0; i < groups; ++i) {
            x = x.slice(0, 0, kFewest + groups - i) * 0.5 + 1.0;
            if (updates) variables_[static_cast<std::size_t>(i)].assign(variables_[static_cast<std::size_t>(i)] + x);
          }
          return std::vector<Tensor>{x};
        }) {
    for (std::int64_t i = 0; updates && i < groups; ++i) variables_.push_back(ones(kFewest + groups - i));
    for (int i = 0; i < 3; ++i) call();
  }
  void call() { benchmark::DoNotOptimize(function_({input_})); }
  // Returns the number of steps of the executed program.
  [[nodiscard]] static std::int64_t steps() {
    const auto executable = compiled_programs().back().executable.lock();
    executable->set_profiling(true);
    const auto count = static_cast<std::int64_t>(executable->profile().size());
    executable->set_profiling(false);
    return count;
  }

 private:
  static Tensor ones(std::int64_t count) {
    return Tensor::from<float>({count}, std::vector<float>(static_cast<std::size_t>(count), 1));
  }
  Tensor input_;
  std::vector<Tensor> variables_;
  CompiledFunction function_;
};

void call(benchmark::State& state) {
  RankContext context(0, 1);
  const RankScope scope(context);
  Chain chain(state.range(0), state.range(1) != 0);
  for (auto _ : state) chain.call();
  state.counters["groups"] = static_cast<double>(Chain::steps());
}
BENCHMARK(call)->ArgNames({"groups", "updates"})->ArgsProduct({{1, 256}, {0, 1}})->Unit(benchmark::kMicrosecond);

struct Point {
  double groups;
  double microseconds;
};

// Returns the fastest of many calls, because other processes only add time.
Point fastest_call(std::int64_t groups, bool updates) {
  using Clock = std::chrono::steady_clock;
  constexpr int kCalls = 2000;
  RankContext context(0, 1);
  const RankScope scope(context);
  Chain chain(groups, updates);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCalls; ++i) {
    const auto start = Clock::now();
    chain.call();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return {static_cast<double>(Chain::steps()), best};
}

void call_fit(benchmark::State& state) {
  const bool updates = state.range(0) != 0;
  for (auto _ : state) {
    const Point few = fastest_call(1, updates);
    const Point many = fastest_call(256, updates);
    const double slope = (many.microseconds - few.microseconds) / (many.groups - few.groups);
    state.counters["us_per_group"] = slope;
    state.counters["fixed_us"] = few.microseconds - slope * few.groups;
  }
}
BENCHMARK(call_fit)->ArgName("updates")->Arg(0)->Arg(1)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();

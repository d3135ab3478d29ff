// SPDX-License-Identifier: Apache-2.0
#include "tessera/runtime/metrics/compute_peak.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "metrics/fma_loops.h"
#include "tessera/base/error.h"
#include "tessera/collectives/cpu_share.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const FmaLoop& loop) {
  volatile double factor = 0.5;
  const auto start = Clock::now();
  volatile double kept = loop.run(factor, loop.rounds);
  (void)kept;
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool suits(const FmaLoop& loop, DType dtype) {
  if (!loop.runs_here()) return false;
  if (dtype == DType::kF64) return loop.dtype == DType::kF64;
  return loop.dtype == DType::kF32 || (loop.dtype == DType::kBF16 && dtype == DType::kBF16);
}

const FmaLoop& fastest_loop(DType dtype) {
  constexpr int kRuns = 10;
  const FmaLoop* fastest = nullptr;
  double most = 0;
  for (const FmaLoop& loop : fma_loops()) {
    if (!suits(loop, dtype)) continue;
    double least_seconds = seconds_of(loop);
    for (int run = 1; run < kRuns; ++run) least_seconds = std::min(least_seconds, seconds_of(loop));
    if (loop.flops() / least_seconds <= most) continue;
    most = loop.flops() / least_seconds;
    fastest = &loop;
  }
  ensure(fastest != nullptr, "no loop of multiply-adds for {}", dtype_name(dtype));
  return *fastest;
}

// The FLOP/s of a thread, or of a rank as the sum over its threads.
struct Rates {
  double median = 0;  // of single runs
  double mean = 0;    // over the total time, in which the thread may have waited for a processor
};

Rates measure_thread(const FmaLoop& loop) {
  constexpr auto kTime = std::chrono::milliseconds(50);
  std::vector<double> seconds;
  const auto start = Clock::now();
  while (Clock::now() - start < kTime) seconds.push_back(seconds_of(loop));
  const double all = std::chrono::duration<double>(Clock::now() - start).count();
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return {loop.flops() / *middle, loop.flops() * static_cast<double>(seconds.size()) / all};
}

Rates measure_rank(const FmaLoop& loop, int threads) {
  std::vector<Rates> rates(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < rates.size(); ++i)
    others.emplace_back([&rates, &loop, i] { rates[i] = measure_thread(loop); });
  rates.front() = measure_thread(loop);
  for (auto& thread : others) thread.join();
  Rates sum;
  for (const Rates& one : rates) sum = {sum.median + one.median, sum.mean + one.mean};
  return sum;
}

}  // namespace

ComputePeak measure_compute_peak(ProcessGroup& world, DType dtype, int threads) {
  require(threads >= 1, "a peak of {} threads; at least one is needed", threads);
  const double share = cpu_share(world, threads);
  const FmaLoop& loop = fastest_loop(dtype);
  world.barrier();
  Rates own = measure_rank(loop, threads);
  world.barrier();  // no rank starts other work while another one measures
  own.median *= share;
  std::vector<Rates> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  ComputePeak out{.instructions = loop.name};
  double reached = 0;
  for (const Rates& rank : all) {
    out.flops_per_second += rank.median;
    reached += rank.mean;
  }
  constexpr double kSteady = 0.8;
  out.is_disturbed = reached < kSteady * out.flops_per_second;
  return out;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Collectives beside Open MPI's own, interleaved in one process:
//
//   mpirun -np 4 build/release/bin/collectives_bench [--benchmark_filter=reduce_scatter --benchmark_out=FILE]
//
// Sizes are those of the whole tensor (the result of an all-gather, the operand of a reduce-scatter). The time of a row is the slowest
// rank's; `open_mpi_us` and `ratio` (Open MPI's time / ours) are medians over the same rounds.
#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/collectives/world.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

struct Buffers {
  std::vector<float> whole;
  std::vector<float> part;
  std::vector<float> result;
};

struct Contender {
  const char* name;
  std::function<void(ProcessGroup&, Buffers&)> ours;
  std::function<void(Buffers&)> mpi;
};

template <class T>
std::span<const std::byte> in_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}
template <class T>
std::span<std::byte> out_of(std::vector<T>& v) {
  return std::as_writable_bytes(std::span(v));
}
int count_of(const std::vector<float>& v) { return static_cast<int>(v.size()); }

std::vector<Contender> contenders() {
  return {
      {"all_gather", [](ProcessGroup& g, Buffers& b) { g.all_gather(in_of(b.part), out_of(b.result)); },
       [](Buffers& b) {
         MPI_Allgather(b.part.data(), count_of(b.part), MPI_FLOAT, b.result.data(), count_of(b.part), MPI_FLOAT,
                       MPI_COMM_WORLD);
       }},
      {"reduce_scatter",
       [](ProcessGroup& g, Buffers& b) {
         g.reduce_scatter(in_of(b.whole), out_of(b.part), DType::kF32, Reduction::kSum);
       },
       [](Buffers& b) {
         MPI_Reduce_scatter_block(b.whole.data(), b.part.data(), count_of(b.part), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"all_reduce",
       [](ProcessGroup& g, Buffers& b) {
         g.all_reduce(in_of(b.whole), out_of(b.result), DType::kF32, Reduction::kSum);
       },
       [](Buffers& b) {
         MPI_Allreduce(b.whole.data(), b.result.data(), count_of(b.whole), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"all_to_all", [](ProcessGroup& g, Buffers& b) { g.all_to_all(in_of(b.whole), out_of(b.result)); },
       [](Buffers& b) {
         MPI_Alltoall(b.whole.data(), count_of(b.part), MPI_FLOAT, b.result.data(), count_of(b.part), MPI_FLOAT,
                      MPI_COMM_WORLD);
       }},
      {"broadcast", [](ProcessGroup& g, Buffers& b) { g.broadcast(out_of(b.result), 0); },
       [](Buffers& b) { MPI_Bcast(b.result.data(), count_of(b.result), MPI_FLOAT, 0, MPI_COMM_WORLD); }},
      {"barrier", [](ProcessGroup& g, Buffers&) { g.barrier(); }, [](Buffers&) { MPI_Barrier(MPI_COMM_WORLD); }},
  };
}

// Seconds of one run, the slowest rank's.
double time_runs(int runs, const std::function<void()>& run) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  for (int i = 0; i < runs; ++i) run();
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / runs;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Every rank runs the same rounds: their number is fixed beforehand.
void measure(benchmark::State& state, ProcessGroup& group, const Contender& contender, std::size_t bytes, int runs) {
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t part = std::max<std::size_t>(1, bytes / sizeof(float) / n);
  Buffers buffers{std::vector<float>(part * n, 1.0F), std::vector<float>(part, 1.0F), std::vector<float>(part * n)};
  std::vector<double> ours;
  std::vector<double> mpi;
  contender.ours(group, buffers);
  contender.mpi(buffers);
  for (auto _ : state) {
    ours.push_back(time_runs(runs, [&] { contender.ours(group, buffers); }));
    mpi.push_back(time_runs(runs, [&] { contender.mpi(buffers); }));
    state.SetIterationTime(ours.back());
  }
  state.counters["open_mpi_us"] = median(mpi) * 1e6;
  state.counters["ratio"] = median(mpi) / median(ours);
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(bytes > 0 ? part * (n - 1) * sizeof(float) : 0));
}

void register_rows(ProcessGroup& group) {
  for (const auto& contender : contenders()) {
    const bool moves = std::string_view(contender.name) != "barrier";
    for (const std::size_t kib : {1, 64, 4096, 65536}) {
      const std::size_t bytes = moves ? kib << 10 : 0;
      const auto runs = static_cast<int>(std::clamp<std::size_t>((std::size_t{32} << 20) / (bytes + 1), 3, 500));
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}", contender.name, bytes).c_str(),
          [&group, contender, bytes, runs](benchmark::State& state) { measure(state, group, contender, bytes, runs); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(9);
      if (!moves) break;
    }
  }
}

// Ranks other than the first print and write nothing.
struct Silent : benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

void run(Communicator& world, int argc, char** argv) {
  require(world.uses_mpi(), "start this under mpirun");
  const bool first = world.rank() == 0;
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i)
    if (first || !std::string_view(argv[i]).starts_with("--benchmark_out")) arguments.push_back(argv[i]);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  require(count == 1, "unknown flag {}", arguments.back());
  register_rows(world.group());
  Silent silent;
  if (first)
    benchmark::RunSpecifiedBenchmarks();
  else
    benchmark::RunSpecifiedBenchmarks(&silent);
}

}  // namespace

int main(int argc, char** argv) {
  auto world = tessera::make_world(argc, argv);
  return tessera::guard_main(world, [&] { run(world, argc, argv); });
}

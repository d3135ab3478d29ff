// SPDX-License-Identifier: Apache-2.0
// Collectives in comparison with those of Open MPI, interleaved in one process:
//
//   mpirun -np 4 build/release/bin/collectives_bench [--benchmark_filter=reduce_scatter --benchmark_out=FILE]
//
// Sizes are those of the complete tensor (the result of an all-gather, the operand of a reduce-scatter). Operands are
// in node memory, like those of programs; in rows named `staged` they are not. The time of a row is that of the slowest
// rank. `mpi_us` is the time of Open MPI. `copy_us` is the time in which all ranks concurrently copy as many bytes as
// the collective reads and writes. `ratio` (Open MPI's time / ours) and `of_copy` (our time / the copy's) are medians
// over the same rounds. In an all-gather each rank's own part is in place for both (MPI_IN_PLACE). In `gather_in_place`
// ranks read the parts in place, so only a barrier remains. A `permute` sends each rank's operand to the next rank, and
// is compared with MPI_Sendrecv.
//
// With TESSERA_NODE=a,a,b,b there are several nodes, and collectives that overlap with other work. In rows
// `beside_work` every rank starts an all_reduce, computes for as long as a blocking one takes, and waits. In
// `beside_sleep` it sleeps instead, as if every rank had a spare core. `hidden` is the part of the blocking time that
// the work hides: 1 if the all_reduce costs nothing. TESSERA_PROGRESS=0 and 1 differ here.
#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/collectives/node_memory.h"
#include "tessera/collectives/world.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

// Floats in node memory or in private memory.
class Floats {
 public:
  Floats(std::size_t count, float value, bool shared) : count_(count), memory_(shared ? node_memory() : nullptr) {
    if (memory_ != nullptr) data_ = reinterpret_cast<float*>(memory_->take(count * sizeof(float)));
    if (data_ == nullptr) {
      memory_ = nullptr;
      own_.resize(count);
      data_ = own_.data();
    }
    std::fill(data_, data_ + count, value);
  }
  ~Floats() {
    if (memory_ != nullptr) memory_->give_back(reinterpret_cast<std::byte*>(data_), count_ * sizeof(float));
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  [[nodiscard]] float* data() const { return data_; }
  [[nodiscard]] int count() const { return static_cast<int>(count_); }
  [[nodiscard]] std::span<std::byte> bytes() const { return std::as_writable_bytes(std::span(data_, count_)); }

 private:
  std::size_t count_;
  std::shared_ptr<NodeMemory> memory_;
  std::vector<float> own_;
  float* data_ = nullptr;
};

struct Buffers {
  Buffers(std::size_t part_count, const ProcessGroup& group, bool shared)
      : full(part_count * static_cast<std::size_t>(group.size()), 1.0F, shared),
        part(part_count, 1.0F, shared),
        result(part_count * static_cast<std::size_t>(group.size()), 0.0F, shared),
        from(2 * part_count * static_cast<std::size_t>(group.size()), 1.0F, false),
        to(2 * part_count * static_cast<std::size_t>(group.size()), 1.0F, false) {
    for (int rank = 0; rank < group.size(); ++rank) ring.emplace_back(rank, (rank + 1) % group.size());
    next = ring[static_cast<std::size_t>(group.rank())].second;
    previous = (group.rank() + group.size() - 1) % group.size();
    own = result.bytes().subspan(static_cast<std::size_t>(group.rank()) * part.bytes().size(), part.bytes().size());
  }
  Floats full;
  Floats part;
  Floats result;
  std::span<std::byte> own;  // of this rank in the result
  Floats from;               // source of the copy
  Floats to;
  std::vector<std::pair<int, int>> ring;  // sends from every rank to the next one
  int next = 0;
  int previous = 0;
  double beside = 0;  // seconds of other work while a collective is pending
};

struct Contender {
  const char* name;
  double
      moved;  // bytes read and written by a rank, as a multiple of the full tensor's; parts of it as multiples of the part's in `parts`
  double parts;
  std::function<void(ProcessGroup&, Buffers&)> ours;
  std::function<void(Buffers&)> mpi;
  bool shared = true;
  bool is_beside = false;  // overlaps with other work, for as long as a blocking all_reduce takes
};

void gather_by_mpi(Buffers& b) {
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b.result.data(), b.part.count(), MPI_FLOAT, MPI_COMM_WORLD);
}
void reduce_scatter(ProcessGroup& g, Buffers& b) {
  g.reduce_scatter(b.full.bytes(), b.part.bytes(), DType::kF32, Reduction::kSum);
}
void reduce_scatter_by_mpi(Buffers& b) {
  MPI_Reduce_scatter_block(b.full.data(), b.part.data(), b.part.count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
void all_reduce(ProcessGroup& g, Buffers& b) {
  g.all_reduce(b.full.bytes(), b.result.bytes(), DType::kF32, Reduction::kSum);
}
void all_reduce_by_mpi(Buffers& b) {
  MPI_Allreduce(b.full.data(), b.result.data(), b.full.count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void work(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) benchmark::ClobberMemory();
}
void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// An all_reduce that overlaps with other work, ours and Open MPI's.
Contender beside(const char* name, void (*other)(double)) {
  return {name,
          3,
          -1,
          [other](ProcessGroup& g, Buffers& b) {
            const auto pending = g.start_all_reduce(b.full.bytes(), b.result.bytes(), DType::kF32, Reduction::kSum);
            other(b.beside);
            pending->wait();
          },
          [other](Buffers& b) {
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Iallreduce(b.full.data(), b.result.data(), b.full.count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                           &request);
            other(b.beside);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
          },
          true,
          true};
}

std::vector<Contender> contenders() {
  return {
      {"all_gather", 2, -2, [](ProcessGroup& g, Buffers& b) { g.all_gather(b.own, b.result.bytes()); }, gather_by_mpi},
      {"gather_in_place", 0, 0, [](ProcessGroup& g, Buffers&) { g.barrier(); }, gather_by_mpi},
      {"reduce_scatter", 1, 1, reduce_scatter, reduce_scatter_by_mpi},
      {"all_reduce", 3, -1, all_reduce, all_reduce_by_mpi},
      {"all_to_all", 2, 0, [](ProcessGroup& g, Buffers& b) { g.all_to_all(b.full.bytes(), b.result.bytes()); },
       [](Buffers& b) {
         MPI_Alltoall(b.full.data(), b.part.count(), MPI_FLOAT, b.result.data(), b.part.count(), MPI_FLOAT,
                      MPI_COMM_WORLD);
       }},
      {"broadcast", 2, 0, [](ProcessGroup& g, Buffers& b) { g.broadcast(b.result.bytes(), 0); },
       [](Buffers& b) { MPI_Bcast(b.result.data(), b.result.count(), MPI_FLOAT, 0, MPI_COMM_WORLD); }},
      {"permute", 2, 0, [](ProcessGroup& g, Buffers& b) { g.permute(b.full.bytes(), b.result.bytes(), b.ring); },
       [](Buffers& b) {
         MPI_Sendrecv(b.full.data(), b.full.count(), MPI_FLOAT, b.next, 0, b.result.data(), b.result.count(), MPI_FLOAT,
                      b.previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
       }},
      {"staged_reduce_scatter", 1, 1, reduce_scatter, reduce_scatter_by_mpi, false},
      {"staged_all_reduce", 3, -1, all_reduce, all_reduce_by_mpi, false},
      beside("beside_work", work),
      beside("beside_sleep", sleep),
      {"barrier", 0, 0, [](ProcessGroup& g, Buffers&) { g.barrier(); }, [](Buffers&) { MPI_Barrier(MPI_COMM_WORLD); }},
  };
}

// Returns the seconds of one run, from the start of the first rank to the end of the last one. All ranks use the clock
// of the node.
double time_runs(int runs, const std::function<void()>& run) {
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  for (int i = 0; i < runs; ++i) run();
  double end = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  MPI_Allreduce(MPI_IN_PLACE, &begin, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return (end - begin) / runs;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Every rank runs the same number of rounds, which is fixed in advance.
void measure(benchmark::State& state, ProcessGroup& group, const Contender& contender, std::size_t bytes, int runs) {
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t part = std::max<std::size_t>(1, bytes / sizeof(float) / n);
  Buffers buffers(part, group, contender.shared);
  const double moved = (contender.moved * static_cast<double>(n) + contender.parts) * static_cast<double>(part);
  const auto copied = static_cast<std::size_t>(moved / 2 * sizeof(float));  // a copy of n bytes reads n and writes n
  const auto copy = [&] { std::memcpy(buffers.to.data(), buffers.from.data(), copied); };
  std::vector<double> ours;
  std::vector<double> mpi;
  std::vector<double> copies;
  contender.ours(group, buffers);
  contender.mpi(buffers);
  std::vector<double> hidden;
  for (auto _ : state) {
    if (contender.is_beside) buffers.beside = time_runs(runs, [&] { all_reduce(group, buffers); });
    ours.push_back(time_runs(runs, [&] { contender.ours(group, buffers); }));
    mpi.push_back(time_runs(runs, [&] { contender.mpi(buffers); }));
    if (copied > 0) copies.push_back(time_runs(runs, copy));
    if (contender.is_beside) hidden.push_back(2 - ours.back() / buffers.beside);
    state.SetIterationTime(ours.back());
  }
  if (contender.is_beside) state.counters["hidden"] = median(hidden);
  state.counters["us"] = median(ours) * 1e6;
  state.counters["mpi_us"] = median(mpi) * 1e6;
  state.counters["ratio"] = median(mpi) / median(ours);
  if (copied == 0) return;
  state.counters["copy_us"] = median(copies) * 1e6;
  state.counters["of_copy"] = median(ours) / median(copies);
}

// `smoke`: runs each row twice, to check that it works.
void register_rows(ProcessGroup& group, bool smoke) {
  for (const auto& contender : contenders()) {
    const bool moves = std::string_view(contender.name) != "barrier";
    for (const std::size_t kib : {1, 64, 512, 4096, 65536}) {
      const std::size_t bytes = moves ? kib << 10 : 0;
      const auto runs =
          smoke ? 2 : static_cast<int>(std::clamp<std::size_t>((std::size_t{32} << 20) / (bytes + 1), 3, 500));
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}", contender.name, bytes).c_str(),
          [&group, contender, bytes, runs](benchmark::State& state) { measure(state, group, contender, bytes, runs); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(smoke ? 1 : 9);
      if (!moves) break;
    }
  }
}

// Ranks other than the first one print and write nothing.
struct Silent : benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

void run(Communicator& world, int argc, char** argv) {
  require(world.uses_mpi(), "start this under mpirun");
  const bool first = world.rank() == 0;
  std::vector<char*> arguments;
  bool smoke = false;
  for (int i = 0; i < argc; ++i)
    if (std::string_view(argv[i]) == "--smoke")
      smoke = true;
    else if (first || !std::string_view(argv[i]).starts_with("--benchmark_out"))
      arguments.push_back(argv[i]);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  require(count == 1, "unknown flag {}", arguments.back());
  register_rows(world.group(), smoke);
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

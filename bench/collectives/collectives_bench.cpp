// SPDX-License-Identifier: Apache-2.0
// Collectives beside Open MPI's own, interleaved in one process:
//
//   mpirun -np 4 build/release/bin/collectives_bench [--smoke] [--json FILE] [--max_bytes N]
//
// Sizes are those of the whole tensor (the result of an all-gather, the operand of a reduce-scatter). The JSON is laid out like
// Google Benchmark's, so that its tools read it.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/collectives/world.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

struct Arguments {
  bool smoke = false;
  std::string json;
  std::size_t max_bytes = std::size_t{64} << 20;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    require(name == "--smoke" || name == "--json" || name == "--max_bytes", "unknown flag {}{}", name,
            suggest_name(name, {"--smoke", "--json", "--max_bytes"}));
    if (name == "--smoke") {
      out.smoke = true;
      continue;
    }
    require(i + 1 < argc, "{} needs a value", name);
    const std::string value = argv[++i];
    if (name == "--json") out.json = value;
    if (name == "--max_bytes") out.max_bytes = std::stoull(value);
  }
  return out;
}

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

struct Row {
  std::string name;
  double seconds;
  double bytes_per_second;
};

std::vector<Row> measure(ProcessGroup& group, const Contender& contender, std::size_t bytes, bool smoke) {
  const auto n = static_cast<std::size_t>(group.size());
  const std::size_t part = std::max<std::size_t>(1, bytes / sizeof(float) / n);
  Buffers buffers{std::vector<float>(part * n, 1.0F), std::vector<float>(part, 1.0F), std::vector<float>(part * n)};
  const int rounds = smoke ? 1 : 9;
  const int runs = smoke ? 2 : static_cast<int>(std::clamp<std::size_t>((std::size_t{32} << 20) / (bytes + 1), 3, 500));
  std::vector<double> ours;
  std::vector<double> mpi;
  contender.ours(group, buffers);
  contender.mpi(buffers);
  for (int round = 0; round < rounds; ++round) {
    ours.push_back(time_runs(runs, [&] { contender.ours(group, buffers); }));
    mpi.push_back(time_runs(runs, [&] { contender.mpi(buffers); }));
  }
  const bool moves = std::strcmp(contender.name, "barrier") != 0;
  const double received = moves ? static_cast<double>(part * (n - 1) * sizeof(float)) : 0;
  const auto row = [&](const char* who, double seconds) {
    return Row{fmt::format("{}/{}/{}", contender.name, moves ? bytes : 0, who), seconds, received / seconds};
  };
  return {row("tessera", median(ours)), row("open_mpi", median(mpi))};
}

void write_json(const std::string& path, int ranks, const std::vector<Row>& rows) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  require(file != nullptr, "cannot write {}", path);
  std::string text = fmt::format("{{\"context\": {{\"ranks\": {}}}, \"benchmarks\": [", ranks);
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += fmt::format(
        "{}\n  {{\"name\": \"{}\", \"run_type\": \"iteration\", \"real_time\": {:.3f}, \"time_unit\": \"us\", "
        "\"bytes_per_second\": {:.0f}}}",
        i == 0 ? "" : ",", rows[i].name, rows[i].seconds * 1e6, rows[i].bytes_per_second);
  text += "\n]}\n";
  std::fputs(text.c_str(), file);
  std::fclose(file);
}

void run(Communicator& world, const Arguments& arguments) {
  require(world.uses_mpi(), "start this under mpirun");
  std::vector<Row> rows;
  if (world.rank() == 0)
    std::printf("%-16s %12s %12s %12s %8s\n", "collective", "bytes", "tessera us", "Open MPI us", "ratio");
  for (const auto& contender : contenders()) {
    for (const std::size_t bytes :
         {std::size_t{1} << 10, std::size_t{64} << 10, std::size_t{4} << 20, std::size_t{64} << 20}) {
      if (bytes > arguments.max_bytes || (arguments.smoke && bytes > (1 << 16))) continue;
      const auto pair = measure(world.group(), contender, bytes, arguments.smoke);
      rows.insert(rows.end(), pair.begin(), pair.end());
      if (world.rank() == 0)
        std::printf("%-16s %12zu %12.2f %12.2f %8.2f\n", contender.name, bytes, pair[0].seconds * 1e6,
                    pair[1].seconds * 1e6, pair[1].seconds / pair[0].seconds);
      if (std::strcmp(contender.name, "barrier") == 0) break;
    }
  }
  if (world.rank() == 0 && !arguments.json.empty()) write_json(arguments.json, world.size(), rows);
}

}  // namespace

int main(int argc, char** argv) {
  auto world = make_world(argc, argv);
  return guard_main(world, [&] { run(world, parse(argc, argv)); });
}

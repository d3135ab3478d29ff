// SPDX-License-Identifier: Apache-2.0
#include "tessera/runtime/metrics/measure_machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {
namespace {

using SteadyClock = std::chrono::steady_clock;

template <class T>
std::vector<T> of_all_ranks(const T& own, ProcessGroup& world) {
  std::vector<T> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median time of a call. Every rank makes the same number of calls.
double seconds_of_call(ProcessGroup& world, double budget, const std::function<void()>& call) {
  const auto timed = [&] {
    const auto start = SteadyClock::now();
    call();
    return std::chrono::duration<double>(SteadyClock::now() - start).count();
  };
  call();  // fills caches
  const auto first = of_all_ranks(timed(), world);
  constexpr double kMostCalls = 2000;
  const double longest = std::max(1e-9, *std::max_element(first.begin(), first.end()));
  const int calls = static_cast<int>(std::clamp(budget / longest, 5.0, kMostCalls));
  world.barrier();
  std::vector<double> seconds;
  for (int i = 0; i < calls; ++i) seconds.push_back(timed());
  return median(std::move(seconds));
}

// A program that makes one value from arrays of zeros.
struct Workload {
  Program program;
  std::vector<Type> arguments;
};

Workload workload(const std::vector<Type>& types, const std::function<Value(const std::vector<Value>&)>& make) {
  ProgramBuilder program("calibrate");
  Builder main = program.computation("main");
  std::vector<Value> parameters;
  for (std::size_t i = 0; i < types.size(); ++i)
    parameters.push_back(ops::parameter(main, static_cast<std::int64_t>(i), types[i]));
  const Value root = make(parameters);
  const ComputationId entry = program.add(std::move(main), root);
  return {program.finish(entry), types};
}

double seconds_of_workload(ProcessGroup& world, double budget, const Workload& work) {
  ExecutableOptions options;
  options.use_cache = false;
  const auto executable = compile(work.program, world, options);
  std::vector<DeviceArray> arguments;
  for (const Type& type : work.arguments) arguments.push_back(DeviceArray::zeros(type));
  const double own = seconds_of_call(world, budget, [&] { (void)executable->run(arguments); });
  return median(of_all_ranks(own, world));
}

Workload product(DType dtype, std::int64_t rows, std::int64_t summed, std::int64_t columns) {
  return workload({Type::array(dtype, {rows, summed}), Type::array(dtype, {summed, columns})},
                  [](const std::vector<Value>& x) { return ops::matmul(x[0], x[1]); });
}

// FLOP/s over several shapes, because products whose sizes are powers of two may be slow.
double wide_product_rate(ProcessGroup& world, DType dtype, double budget) {
  constexpr std::array<std::array<std::int64_t, 3>, 4> kShapes = {
      {{512, 512, 512}, {256, 768, 768}, {640, 320, 960}, {192, 1024, 384}}};
  double operations = 0;
  double seconds = 0;
  for (const auto& [rows, summed, columns] : kShapes) {
    operations += 2.0 * static_cast<double>(rows * summed * columns);
    seconds += seconds_of_workload(world, budget / kShapes.size(), product(dtype, rows, summed, columns));
  }
  return operations / seconds;
}

MachineModel::Rates rates_of(ProcessGroup& world, DType dtype, double budget) {
  constexpr std::int64_t kLong = 4096;
  constexpr std::int64_t kNarrow = 24;
  constexpr std::int64_t kElements = 1 << 18;
  constexpr int kSteps = 8;
  const Workload chain =
      workload({Type::array(dtype, {kElements}), Type::array(dtype, {kElements})}, [](const std::vector<Value>& x) {
        Value out = x[0];
        for (int i = 0; i < kSteps; ++i) out = i % 2 == 0 ? ops::multiply(out, x[1]) : ops::subtract(out, x[0]);
        return out;
      });
  const double narrow = seconds_of_workload(world, budget, product(dtype, kLong, kNarrow, kNarrow));
  const double other = seconds_of_workload(world, budget, chain);
  return {wide_product_rate(world, dtype, budget), 2.0 * kLong * kNarrow * kNarrow / narrow,
          1.0 * kSteps * kElements / other};
}

double memory_bytes_per_second_of(ProcessGroup& world, double budget) {
  constexpr std::int64_t kElements = 1 << 24;  // larger than caches
  const Type type = Type::array(DType::kF32, {kElements});
  const double seconds = seconds_of_workload(
      world, budget, workload({type}, [](const std::vector<Value>& x) { return ops::negate(x[0]); }));
  return 2.0 * static_cast<double>(type.byte_size()) / seconds;
}

// latency * messages + bytes / bandwidth, from a small and a large all-gather.
Link measure_link(ProcessGroup& world, ProcessGroup& group, double budget) {
  constexpr std::size_t kLarge = std::size_t{4} << 20;
  const auto gathered = [&](std::size_t bytes) {
    const std::vector<std::byte> own(bytes);
    std::vector<std::byte> all(bytes * static_cast<std::size_t>(group.size()));
    const double seconds = seconds_of_call(world, budget, [&] { group.all_gather(own, all); });
    const auto of_ranks = of_all_ranks(seconds, world);
    return *std::max_element(of_ranks.begin(), of_ranks.end());
  };
  const double messages = group.size() - 1;
  const double small = gathered(sizeof(double));
  const double large = gathered(kLarge);
  const double moving = std::max(large - small, large / 10);
  return {small / messages, messages * static_cast<double>(kLarge) / moving};
}

Topology measure_links(ProcessGroup& world, const Mesh& mesh, double budget) {
  if (world.size() == 1) return MachineModel::load("cpu-node").links();
  Topology out;
  if (mesh.axis_count() == 0) out.set_link("", measure_link(world, world, budget));
  std::optional<Link> slowest;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const MeshAxis& axis = mesh.axes()[static_cast<std::size_t>(a)];
    if (axis.size == 1) continue;
    std::vector<std::vector<int>> groups;
    for (const auto& group : mesh.groups({AxisRef{a, 1, axis.size}})) groups.emplace_back(group.begin(), group.end());
    const auto group = world.split(groups, "calibrate:" + axis.name);
    const Link link = measure_link(world, *group, budget);
    out.set_link(axis.name, link);
    slowest = slowest ? slower(*slowest, link) : link;
  }
  if (slowest) out.set_link("", *slowest);
  return out;
}

std::int64_t memory_of_rank(ProcessGroup& world) {
  const auto nodes = world.nodes();
  const auto here = nodes.empty()
                        ? world.size()
                        : std::count(nodes.begin(), nodes.end(), nodes[static_cast<std::size_t>(world.rank())]);
  const std::int64_t all = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  const auto of_ranks = of_all_ranks(all / std::max<std::int64_t>(1, here), world);
  return *std::min_element(of_ranks.begin(), of_ranks.end());
}

}  // namespace

MachineModel measure_machine(ProcessGroup& world, const MachineMeasurement& how) {
  require(how.mesh.axis_count() == 0 || how.mesh.device_count() == world.size(),
          "the mesh {} has {} devices, the job has {} ranks", how.mesh.str(), how.mesh.device_count(), world.size());
  MachineModel out;
  out.set_name("measured");
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16})
    out.set_rates(dtype, rates_of(world, dtype, how.seconds_per_figure));
  out.set_memory(memory_bytes_per_second_of(world, how.seconds_per_figure), memory_of_rank(world));
  out.set_links(measure_links(world, how.mesh, how.seconds_per_figure));
  return out;
}

}  // namespace tessera

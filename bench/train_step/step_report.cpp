// SPDX-License-Identifier: Apache-2.0
#include "step_report.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/ir/op_def.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::bench {
namespace {

constexpr double kNanosecond = 1e-9;

double seconds_of(const StepProfile& step) {
  return step.runs == 0 ? 0 : static_cast<double>(step.nanoseconds) * kNanosecond / static_cast<double>(step.runs);
}

struct KindTotal {
  std::int64_t steps = 0;
  double seconds = 0;  // of one run
  double flops = 0;
  double bytes = 0;
  std::string first;  // name of the first one

  void add(const StepProfile& step) {
    ++steps;
    seconds += seconds_of(step);
    flops += step.flops;
    bytes += static_cast<double>(step.bytes);
  }
};

// Adds up all runs, of kernels and collectives.
double kernel_seconds(const Executable& executable) {
  double total = 0;
  for (const StepProfile& step : executable.profile()) total += static_cast<double>(step.nanoseconds) * kNanosecond;
  return total;
}

template <class Key>
std::vector<std::pair<Key, KindTotal>> by_time(const std::map<Key, KindTotal>& totals) {
  std::vector<std::pair<Key, KindTotal>> out(totals.begin(), totals.end());
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return out;
}

std::string row(std::string_view name, const KindTotal& total, double total_seconds) {
  constexpr double kMilli = 1e3;
  constexpr double kGiga = 1e-9;
  constexpr double kMega = 1e-6;
  return fmt::format("{:<56} {:>5} x {:>10.3f} ms {:>6.2f}% {:>8.1f} GFLOP/s {:>7.2f} GB/s {:>9.1f} MB\n", name,
                     total.steps, total.seconds * kMilli, 100 * total.seconds / total_seconds,
                     total.flops / total.seconds * kGiga, total.bytes / total.seconds * kGiga, total.bytes * kMega);
}

// Returns the type of each named value.
std::map<std::string, std::string> result_types(const Program& program) {
  std::map<std::string, std::string> out;
  for (const auto& instruction : program.entry_computation().instructions)
    out[instruction.name] = instruction.type.str();
  return out;
}

}  // namespace

double median(std::vector<double> values) {
  ensure(!values.empty(), "no samples");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

const CompiledProgram& step_program() {
  const auto& all = compiled_programs();
  const auto found = std::find_if(
      all.rbegin(), all.rend(), [](const CompiledProgram& program) { return program.reason.starts_with("mark_step"); });
  ensure(found != all.rend(), "no step was compiled");
  return *found;
}

double product_flops(const Program& global) {
  const Computation& entry = global.entry_computation();
  double total = 0;
  for (const auto& instruction : entry.instructions) {
    const std::string_view name = instruction.op->name;
    // One of the five products of attention-backward repeats the scores, which is no work of the model.
    const double share = name == "attention-backward" ? 0.8 : 1;
    if (name == "dot" || name == "convolution" || name.starts_with("attention"))
      total += share * flops_of(view_of(global, entry, instruction));
  }
  return total;
}

double compile_seconds() {
  double total = 0;
  for (const char* name : {"PartitionTime", "CompileTime"})
    if (const auto data = metrics().metric_data(name)) total += data->accumulator * kNanosecond;
  return total;
}

double host_seconds(const CompiledProgram& compiled, const std::function<void()>& meet,
                    const std::function<void()>& step) {
  constexpr int kSteps = 5;
  Executable& executable = *compiled.executable.lock();
  executable.set_profiling(true);
  std::vector<double> out;
  for (int i = 0; i < kSteps; ++i) {
    const double before = kernel_seconds(executable);
    meet();
    const auto start = Clock::now();
    step();
    const double elapsed = seconds_since(start);
    const double meeting = static_cast<double>(executable.last_run().meeting_nanoseconds) * kNanosecond;
    out.push_back(elapsed - (kernel_seconds(executable) - before) - meeting);
  }
  return median(out);
}

CollectiveSeconds collective_seconds() {
  constexpr std::string_view kPrefix = "CollectiveTime::";
  CollectiveSeconds out{};
  for (const std::string& name : metrics().metric_names()) {
    if (!name.starts_with(kPrefix)) continue;
    const auto kind =
        std::find(kCollectives.begin(), kCollectives.end() - 1, std::string_view(name).substr(kPrefix.size()));
    out[static_cast<std::size_t>(kind - kCollectives.begin())] +=
        metrics().metric_data(name)->accumulator * kNanosecond;
  }
  return out;
}

std::string by_collective(const CollectiveSeconds& seconds) {
  JsonLine out;
  out.add("total", std::accumulate(seconds.begin(), seconds.end(), 0.0));
  for (std::size_t kind = 0; kind < seconds.size(); ++kind)
    if (seconds[kind] > 0) out.add(kCollectives[kind], seconds[kind]);
  return out.str();
}

void write_profile(const CompiledProgram& compiled, const std::string& path) {
  const auto executable = compiled.executable.lock();
  const auto types = result_types(compiled.program);
  std::map<std::string, KindTotal> kinds;
  std::map<std::pair<std::string, double>, KindTotal> alike;  // by kind, result type and FLOPs
  KindTotal all;
  for (const StepProfile& step : executable->profile()) {
    const auto type = types.find(step.name);
    const std::string name = fmt::format("{} {}", step.kind, type == types.end() ? "" : type->second);
    KindTotal& like_this = alike[{name, step.flops}];
    if (like_this.steps == 0) like_this.first = step.name;
    for (KindTotal* total : {&kinds[step.kind], &like_this, &all}) total->add(step);
  }
  std::string out =
      executable->name() + ": time of one run by kind of step; FLOPs by the ops' count; bytes of the buffers touched\n";
  for (const auto& [kind, total] : by_time(kinds)) out += row(kind, total, all.seconds);
  out += row("all", all, all.seconds) + "\nequal steps (by kind, first result and FLOPs), with the first of them\n";
  for (const auto& [key, total] : by_time(alike))
    out += row(fmt::format("{} %{}", key.first, total.first), total, all.seconds);
  write_file(path, out);
}

}  // namespace tessera::bench

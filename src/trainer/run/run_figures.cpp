// SPDX-License-Identifier: Apache-2.0
#include "run/run_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tessera/collectives/process_group.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::trainer {

DType peak_dtype(const TrainingArguments& arguments, const TrainingSetup& setup) {
  if (arguments.dtype == "float64") return DType::kF64;
  return setup.compute_dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

std::string peak_line(const ComputePeak& peak) {
  constexpr double kGiga = 1e9;
  std::string out = fmt::format(
      "peak       {:.1f} GFLOP/s: {} in registers, all ranks together\n"
      "           MFU is relative to this peak\n",
      peak.flops_per_second / kGiga, peak.instructions);
  if (peak.is_disturbed) out += "note       the cores are busy with other work, so speeds and MFU are not reliable\n";
  return out;
}

std::string work_lines(const StepWork& work) {
  std::string out = fmt::format(
      "work       6 N T = {:.4g} FLOP per step, which the MFU counts\n"
      "           N = {} parameters, T = {:.0f} {}\n",
      work.nominal, work.parameters, work.units, work.unit);
  constexpr double kPercent = 100;
  if (work.attention)
    out += fmt::format("           attention adds 12 L d S T = {:.3g} FLOP ({:.2g}%)\n", *work.attention,
                       kPercent * *work.attention / work.nominal);
  if (work.executed) out += fmt::format("           the ranks execute {:.4g} FLOP per step\n", *work.executed);
  return out;
}

std::optional<double> executed_flops(std::int64_t first) {
  const CompiledProgram* step = nullptr;
  for (const CompiledProgram& program : compiled_programs()) {
    if (program.number < first || !program.reason.starts_with("mark_step")) continue;
    if (step != nullptr) return std::nullopt;
    step = &program;
  }
  const auto executable = step == nullptr ? nullptr : step->executable.lock();
  const double flops = executable ? executable->last_run().flops : 0;
  if (flops == 0) return std::nullopt;  // the backend counts none
  return flops * static_cast<double>(job_info().ranks);
}

std::optional<double> ExposedCommunication::seconds_per_program(const ExposedCommunication& earlier) const {
  if (programs == earlier.programs) return std::nullopt;
  return (seconds - earlier.seconds) / static_cast<double>(programs - earlier.programs);
}

std::optional<double> ExposedCommunication::part_of_time(const ExposedCommunication& earlier) const {
  if (programs == earlier.programs) return std::nullopt;
  // The first program may have begun before `earlier`.
  return std::min(1.0, (seconds - earlier.seconds) / std::chrono::duration<double>(time - earlier.time).count());
}

namespace {
constexpr double kNanosecond = 1e-9;

// Ranks of one node read each other's memory in place. While a rank reads, it does not compute.
bool may_overlap() {
  const JobInfo job = job_info();
  const std::vector<int> nodes = joined_world()->nodes();  // also those of virtual ranks
  return job.nodes > 1 || !job.shares_memory ||
         std::any_of(nodes.begin(), nodes.end(), [&](int node) { return node != nodes.front(); });
}
}  // namespace

double seconds_of_metric(std::string_view name) {
  const auto data = metrics().metric_data(name);
  return data ? data->accumulator * kNanosecond : 0;
}

CommunicationSeconds communication_seconds() {
  return {seconds_of_metric("ExposedCommunicationTime"), seconds_of_metric("OverlappedCommunicationTime")};
}

std::string overlap_line(const CommunicationSeconds& earlier) {
  const CommunicationSeconds now = communication_seconds();
  const double hidden = now.overlapped - earlier.overlapped;
  const double all = now.exposed - earlier.exposed + hidden;
  if (all <= 0 || !may_overlap()) return "";
  constexpr double kPercent = 100;
  return fmt::format("overlap    computation hid {:.0f}% of the communication of rank 0: {:.3g} s of {:.3g} s",
                     kPercent * hidden / all, hidden, all);
}

ExposedCommunication exposed_communication() {
  const auto data = metrics().metric_data("ExposedCommunicationTime");
  ExposedCommunication out{.time = std::chrono::steady_clock::now()};
  if (data) out.seconds = data->accumulator * kNanosecond, out.programs = data->total_samples;
  return out;
}

ExecutableMemory most_memory_of_steps(std::int64_t first) {
  ExecutableMemory most;
  for (const CompiledProgram& program : compiled_programs())
    if (program.number >= first && program.reason.starts_with("mark_step") &&
        program.memory.held_bytes() > most.held_bytes())
      most = program.memory;
  return most;
}

}  // namespace tessera::trainer

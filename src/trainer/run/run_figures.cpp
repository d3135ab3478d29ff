// SPDX-License-Identifier: Apache-2.0
#include "run/run_figures.h"

#include <fmt/format.h>

#include <algorithm>

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

std::optional<double> ExposedCommunication::seconds_per_program(const ExposedCommunication& earlier) const {
  if (programs == earlier.programs) return std::nullopt;
  return (seconds - earlier.seconds) / static_cast<double>(programs - earlier.programs);
}

std::optional<double> ExposedCommunication::part_of_time(const ExposedCommunication& earlier) const {
  if (programs == earlier.programs) return std::nullopt;
  // The first program may have begun before `earlier`.
  return std::min(1.0, (seconds - earlier.seconds) / std::chrono::duration<double>(time - earlier.time).count());
}

ExposedCommunication exposed_communication() {
  constexpr double kNanosecond = 1e-9;
  const auto data = metrics().metric_data("ExposedCommunicationTime");
  ExposedCommunication out{.time = std::chrono::steady_clock::now()};
  if (data) out.seconds = data->accumulator * kNanosecond, out.programs = data->total_samples;
  return out;
}

ExecutableMemory most_memory_of_steps(std::size_t first) {
  ExecutableMemory most;
  const auto& programs = compiled_programs();
  for (std::size_t i = first; i < programs.size(); ++i)
    if (programs[i].reason.starts_with("mark_step") && programs[i].memory.held_bytes() > most.held_bytes())
      most = programs[i].memory;
  return most;
}

}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/published_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <numeric>

#include "plan/step_plan.h"
#include "tessera/base/text.h"
#include "tessera/nn/models/gpt2_presets.h"

namespace tessera::trainer {
namespace {

constexpr double kPeak = 275e12;
constexpr double kMilli = 1e-3;
constexpr std::int64_t kSequence = 1024;
constexpr std::int64_t kCoresOfAChip = 2;

// Of a chip, as in Jouppi et al., "TPU v4" (ISCA 2023), table 4: 1.2 TB/s and 32 GiB of HBM, six links of 50 GB/s.
constexpr double kMemoryBytesPerSecond = 1.2e12;
constexpr std::int64_t kMemoryBytes = std::int64_t{32} << 30;
constexpr double kLinkBytesPerSecond = 300e9;

std::vector<PublishedTraining> published_rows() {
  return {{"2b", 8, 4.191, 1.65, 0.357},    {"16b", 64, 14.592, 50, 0.388},   {"20b", 128, 7.824, 62, 0.451},
          {"32b", 128, 12.970, 101, 0.444}, {"64b", 256, 25.653, 404, 0.447}, {"128b", 512, 30.460, 809, 0.377}};
}

bool is_fitted(const PublishedTraining& row) { return row.preset == "16b" || row.preset == "20b"; }

std::int64_t chips_of(const PublishedTraining& row) { return row.cores / kCoresOfAChip; }

TrainingPlan plan_of(const PublishedTraining& row) {
  const nn::GPT2Preset& preset = nn::gpt2_preset(row.preset);
  TrainingPlanOptions options;
  options.config = nn::gpt2_config(preset);
  options.mesh = Mesh({{"fsdp", chips_of(row)}});
  options.rows = preset.batch_tokens / kSequence;
  options.sequence = kSequence;
  return plan_gpt2_training(options);
}

// The part of a step that does not depend on the speed of computation.
double seconds_of_bytes(const TrainingPlan& plan, const MachineModel& machine) {
  const auto received =
      std::accumulate(plan.collectives.begin(), plan.collectives.end(), std::int64_t{0},
                      [](std::int64_t sum, const PlannedCollective& kind) { return sum + kind.bytes; });
  return static_cast<double>(plan.traffic_bytes) / machine.memory_bytes_per_second() +
         static_cast<double>(received) / machine.links().other().bytes_per_second;
}

// The speed s with which the errors (F / s + B) / published - 1 of the fitted rows add up to 0.
double fitted_flops_per_second(const std::vector<ModelledTraining>& rows, const MachineModel& machine) {
  double work = 0;   // sum of F / published
  double other = 0;  // sum of 1 - B / published
  for (const ModelledTraining& row : rows) {
    if (!row.is_fitted) continue;
    work += row.plan.flops_per_device / row.published.seconds;
    other += 1 - seconds_of_bytes(row.plan, machine) / row.published.seconds;
  }
  return work / other;
}

MachineModel machine_of(double flops_per_second) {
  MachineModel machine;
  machine.set_name("tpu-v4 with the speed of computation fitted");
  machine.set_memory(kMemoryBytesPerSecond, kMemoryBytes);
  Topology links;
  links.set_link("", {.latency_seconds = 0, .bytes_per_second = kLinkBytesPerSecond});
  machine.set_links(links);
  for (const DType dtype : {DType::kF32, DType::kBF16})
    machine.set_rates(dtype, {flops_per_second, flops_per_second, flops_per_second});
  return machine;
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

}  // namespace

PublishedTable model_published_table() {
  PublishedTable out;
  for (PublishedTraining& row : published_rows()) {
    const bool fitted = is_fitted(row);
    out.rows.push_back({.published = std::move(row), .plan = {}, .is_fitted = fitted});
  }
  on_threads(out.rows.size(), [&](std::size_t i) { out.rows[i].plan = plan_of(out.rows[i].published); });
  out.machine = machine_of(fitted_flops_per_second(out.rows, machine_of(kPeak)));
  const double speed = out.machine.flops_per_second(DType::kBF16, WorkClass::kWideProduct);
  for (ModelledTraining& row : out.rows) {
    constexpr double kPeta = 1e15;
    row.seconds = row.plan.flops_per_device / speed + seconds_of_bytes(row.plan, out.machine);
    row.utilization =
        row.plan.nominal_pflop() * kPeta / row.seconds / static_cast<double>(chips_of(row.published)) / kPeak;
  }
  return out;
}

std::string PublishedTable::str() const {
  constexpr double kTera = 1e12;
  std::string out = fmt::format(
      "GPT-2 under FSDP on TPU v4, sequences of {} tokens, bf16, blocks recomputed in the backward pass\n\n"
      "{:<6} {:>5} {:>8} {:>13} {:>11} {:>6}  {:>11} {:>12} {:>6}  {:>6} {:>9}\n",
      kSequence, "preset", "cores", "tokens", "parameters", "memory/chip", "PFLOP", "modelled ms", "published ms",
      "ratio", "MFU", "published");
  for (const ModelledTraining& row : rows)
    out += fmt::format("{:<6} {:>5} {:>8} {:>13} {:>11} {:>6.4g}  {:>11.0f} {:>12.0f} {:>7}  {:>5} {:>9}\n",
                       row.published.preset, row.published.cores, row.plan.tokens, row.plan.parameters,
                       format_bytes(static_cast<double>(row.plan.peak_bytes)), row.plan.nominal_pflop(),
                       row.seconds / kMilli, row.published.seconds / kMilli,
                       fmt::format("{:.3f}{}", row.ratio(), row.is_fitted ? "*" : " "), percent(row.utilization),
                       percent(row.published.utilization));
  const ModelledTraining& smallest = rows.front();
  constexpr double kPeta = 1e15;
  const double implied = smallest.published.utilization * smallest.published.seconds *
                         static_cast<double>(chips_of(smallest.published)) * kPeak / kPeta;
  return out +
         fmt::format(
             "\n* The speed of computation, {:.1f} of {:.0f} TFLOP/s, is fitted to these two rows, such that their "
             "errors "
             "are\n  equal and opposite. Memory ({:.1f} TB/s) and links ({:.0f} GB/s) have the speeds of the data "
             "sheet.\n"
             "The published numbers of {} do not agree with each other: its configuration has {} parameters, so a step "
             "has\n{:.3g} PFLOP by 6 N T; the table says {:.3g}, and its MFU times its time is {:.3g}.\n",
             machine.flops_per_second(DType::kBF16, WorkClass::kWideProduct) / kTera, kPeak / kTera,
             machine.memory_bytes_per_second() / kTera, machine.links().other().bytes_per_second * 1e-9,
             smallest.published.preset, smallest.plan.parameters, smallest.plan.nominal_pflop(),
             smallest.published.pflop, implied);
}

std::string PublishedTable::json() const {
  boost::json::array out;
  for (const ModelledTraining& row : rows)
    out.push_back({{"preset", row.published.preset},
                   {"cores", row.published.cores},
                   {"tokens", row.plan.tokens},
                   {"parameters", row.plan.parameters},
                   {"peak_bytes", row.plan.peak_bytes},
                   {"pflop", row.plan.nominal_pflop()},
                   {"fitted", row.is_fitted},
                   {"seconds", row.seconds},
                   {"published_seconds", row.published.seconds},
                   {"utilization", row.utilization},
                   {"published_utilization", row.published.utilization}});
  return boost::json::serialize(out) + "\n";
}

}  // namespace tessera::trainer

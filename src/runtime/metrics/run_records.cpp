// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_records.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/ir/op_def.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {

EventLabel run_label(const std::string& name, std::size_t hash) {
  return {.category = "execute", .name = name, .arguments = {{"hash", fmt::format("{:016x}", hash)}}};
}

void record_run(const RunStatistics& run, const std::vector<std::string>& fallbacks) {
  Metrics& all = metrics();
  const auto add_time = [&](std::string_view name, std::int64_t nanoseconds) {
    all.add_sample(name, MetricUnit::kTime, static_cast<double>(nanoseconds));
  };
  add_time("ExecuteTime", run.nanoseconds);
  if (run.communication_nanoseconds > 0) add_time("ExposedCommunicationTime", run.communication_nanoseconds);
  if (run.overlapped_nanoseconds > 0) add_time("OverlappedCommunicationTime", run.overlapped_nanoseconds);
  if (run.meeting_nanoseconds > 0) add_time("CollectiveTime::start", run.meeting_nanoseconds);
  all.count("FlopsExecuted", static_cast<std::int64_t>(run.flops));
  const TrafficCounters& traffic = run.traffic;
  const std::pair<std::string_view, std::int64_t> kinds[] = {
      {"CollectiveBytes::all-gather", traffic.all_gather},
      {"CollectiveBytes::reduce-scatter", traffic.reduce_scatter},
      {"CollectiveBytes::all-reduce", traffic.all_reduce},
      {"CollectiveBytes::all-to-all", traffic.all_to_all},
      {"CollectiveBytes::collective-permute", traffic.permute},
      {"CollectiveBytes::collective-broadcast", traffic.broadcast},
      {"CollectiveBytes::through-mpi", traffic.mpi_payload},
      {"CollectiveCalls", traffic.calls}};
  for (const auto& [name, amount] : kinds)
    if (amount > 0) all.count(name, amount);
  for (const std::string& op : fallbacks) all.count("fallback::" + op);
}

// ---- schedule steps -----------------------------------------------------------------------------------------------------

bool StepEvents::is_collective(const Described& step) { return step.instruction->op->role == Role::kCollective; }

void StepEvents::add_step(const Instruction& instruction, bool is_fused_group) {
  steps_.push_back({.instruction = &instruction, .is_fused_group = is_fused_group});
  steps_.back().labels.fill(Timeline::kNoLabel);
}

void StepEvents::begin_run() {
  Timeline& timeline = Timeline::current();
  const int level = timeline.level();
  timeline_ = level > 0 ? &timeline : nullptr;
  covers_all_ = level > 1;
  if (timeline_ == nullptr || known_ == timeline.id()) return;
  known_ = timeline.id();
  for (Described& step : steps_) step.labels.fill(Timeline::kNoLabel);
}

void StepEvents::add(std::size_t step, Part part, std::int64_t begin, std::int64_t end, std::int64_t bytes) {
  Described& described = steps_[step];
  if (timeline_ == nullptr || (!covers_all_ && !is_collective(described))) return;
  Timeline::Label& label = described.labels[static_cast<std::size_t>(part)];
  if (label == Timeline::kNoLabel) label = timeline_->label(label_of(described, part));
  timeline_->add(label, begin, end, bytes);
}

// Events of collectives have the name of their op, so that viewers add them up.
EventLabel StepEvents::label_of(const Described& step, Part part) {
  constexpr std::array<std::string_view, 4> kSuffixes = {"", "-start", "-done", "-wait"};
  const Instruction& instruction = *step.instruction;
  const std::string kind = step.is_fused_group ? "fused" : std::string(instruction.op->name);
  EventLabel out;
  if (is_collective(step)) {
    out = {.category = "collective", .name = kind, .arguments = {{"instruction", instruction.name}}};
    if (const std::string* axes = instruction.frontend_attribute("tessera.axes"))
      out.arguments.emplace_back("over", *axes);
    if (part == Part::kComplete || part == Part::kStart) out.number_name = "bytes";
  } else {
    out = {.category = "op", .name = instruction.name, .arguments = {{"op", kind}}};
  }
  out.name += kSuffixes[static_cast<std::size_t>(part)];
  if (std::string source = instruction.source(); !source.empty())
    out.arguments.emplace_back("source", std::move(source));
  return out;
}

}  // namespace tessera

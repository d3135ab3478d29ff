// SPDX-License-Identifier: Apache-2.0
// What a training run prints about its model, shardings and memory.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "plan/step_plan.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/runtime/executable/buffer.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/sharding/placement.h"
#include "tessera/trainer/clm.h"
#include "tessera/trainer/progress.h"

namespace tessera::trainer {
namespace {

std::string hosts_text(const JobInfo& job) {
  std::map<std::string, int> counts;
  for (const auto& host : job.hosts) ++counts[host];
  if (counts.empty()) return "this process";
  std::vector<std::string> parts;
  for (const auto& [host, count] : counts) parts.push_back(fmt::format("{} ({})", host, count));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string clm_model_text(const ClmModel& setup) {
  const nn::CausalShape shape = setup.model->shape();
  return fmt::format("{}, {} layers, width {}, {} heads, vocabulary {}", shape.family, shape.layers, shape.width,
                     shape.heads, shape.vocabulary);
}

std::string clm_rows_text(const ClmModel& setup) { return fmt::format("sequences of {} tokens", setup.block_size); }

std::string banner(const TrainingArguments& arguments, const TrainingSetup& setup, const std::string& model_text,
                   const std::string& rows_text) {
  const JobInfo job = job_info();
  const std::int64_t rows = arguments.micro_batch_rows(setup.data_shards);
  std::string out = fmt::format("model      {}: {} parameters\n", model_text, setup.network->parameter_count());
  if (is_planning())
    out += fmt::format("ranks      none: a plan for {} device{}\n", device_count(), device_count() == 1 ? "" : "s");
  else
    out += fmt::format("ranks      {}{} on {}\n", job.ranks, job.is_virtual ? " virtual" : "", hosts_text(job));
  out += fmt::format("mesh       {}\n", setup.mesh.str());
  out += fmt::format("batch      {} x {} accumulation = {} {}, rows over {}\n", rows,
                     arguments.gradient_accumulation_steps, rows * arguments.gradient_accumulation_steps, rows_text,
                     setup.data_axes.empty() ? "no axis" : fmt::format("{}", fmt::join(setup.data_axes, "+")));
  out += fmt::format("threads    {} per rank\n", options().integer("TESSERA_NUM_THREADS"));
  for (const auto& note : setup.notes) out += "note       " + note + "\n";
  if (!job.oversubscription.empty()) out += "note       " + job.oversubscription + "\n";
  if (!setup.units.empty()) out += "\n" + unit_report(setup.units);
  return out;
}

namespace {

// The matrices of a block that are drawn: the first and the last of its feed-forward layer.
constexpr const char* kDrawn[] = {"mlp.c_fc.weight",           "mlp.c_proj.weight",   "mlp.gate_proj.weight",
                                  "mlp.down_proj.weight",      "experts.*.w1.weight", "experts.*.w2.weight",
                                  "intermediate.dense.weight", "output.dense.weight"};

}  // namespace

std::vector<std::string> block_paths(nn::PretrainedModel& model) {
  std::vector<std::string> out;
  for (const auto& [path, module] : model.named_modules())
    if (module->class_name() == model.block_class()) out.push_back(path + ".");
  return out;
}

std::string sharding_report(const TrainingSetup& setup) {
  std::string out = "parameters of one block and outside the blocks:\n";
  std::string pictures;
  const std::vector<std::string> blocks = block_paths(*setup.network);
  for (const auto& parameter : setup.network->named_parameters()) {
    const auto block = std::find_if(blocks.begin(), blocks.end(),
                                    [&](const std::string& path) { return parameter.name.starts_with(path); });
    if (block != blocks.end() && block != blocks.begin()) continue;
    const Type& type = parameter.tensor.type();
    const auto sharding = parameter.tensor.sharding();
    const std::string text = sharding ? sharding->str() : "fully replicated";
    const Type local = sharding ? shard_type(type, *sharding) : type;
    out += fmt::format("  {:<36} {:<18} {:<24} {} per device\n", parameter.name, type.str(), text, local.str());
    const bool drawn = block != blocks.end() && std::any_of(std::begin(kDrawn), std::end(kDrawn), [&](const char* end) {
                         return parameter.name.ends_with(end);
                       });
    constexpr std::int64_t kMostDevices = 16;
    if (drawn && sharding && setup.mesh.device_count() <= kMostDevices)
      pictures += fmt::format("{} {} {}\n{}", parameter.name, type.str(), text, visualize_sharding(parameter.tensor));
  }
  return out + pictures;
}

namespace {

double stored_bytes(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const auto& tensor : tensors) {
    const auto sharding = tensor.sharding();
    bytes += static_cast<double>((sharding ? shard_type(tensor.type(), *sharding) : tensor.type()).byte_size());
  }
  return bytes;
}

}  // namespace

ProcessMemory measure_process(std::string when) {
  const JobInfo job = job_info();
  const MemoryInfo arrays = memory_info();
  const std::int64_t share = process_memory() / (job.is_virtual ? job.ranks : 1);
  return {std::max<std::int64_t>(0, share - arrays.used - arrays.pooled), std::move(when)};
}

std::string memory_report(const TrainingSetup& setup, const ExecutableMemory& memory, const ProcessMemory& process) {
  std::vector<Tensor> state;
  for (auto& named : setup.optimizer->named_state()) state.push_back(std::move(named.tensor));
  std::string out = "memory of a device:\n";
  const auto line = [&](const char* what, double bytes, const std::string& exactly = "") {
    out += fmt::format("  {:<38} {:>10}{}\n", what, format_bytes(bytes), exactly);
  };
  line("parameters", stored_bytes(setup.network->parameters()));
  line("optimizer state", stored_bytes(state));
  const ArenaPeak& peak = memory.arena_peak;
  line("gathered values", static_cast<double>(peak.gathered));
  line("gradients", static_cast<double>(peak.gradients));
  line("activations and other values", static_cast<double>(peak.values));
  line("messages of collectives", static_cast<double>(peak.messages));
  line("scratch memory of loops and branches", static_cast<double>(peak.scratch));
  line("gaps in the arena", static_cast<double>(memory.arena - peak.sum()));
  line("total at the peak", static_cast<double>(memory.peak_bytes()), fmt::format("  ({} bytes)", memory.peak_bytes()));
  line("workspace of the kernels, extra", static_cast<double>(memory.workspace),
       fmt::format("  ({} bytes)", memory.workspace));
  line("process (libraries, MPI, allocator)", static_cast<double>(process.bytes),
       fmt::format("  (measured {}, not planned)", process.when));
  return out;
}

std::string largest_values_report(const ExecutableMemory& memory) {
  std::string out = "the largest values at the peak:\n";
  for (const ArenaPeak::Part& part : memory.arena_peak.largest)
    out += fmt::format("  {:>10}  {}\n", format_bytes(static_cast<double>(part.bytes)), part.what);
  return out;
}

std::string collective_report(const std::vector<CollectiveNote>& notes) {
  struct Group {
    CollectiveNote first;
    std::int64_t count = 0;
    std::int64_t bytes = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Group> groups;
  std::int64_t total = 0;
  for (const auto& note : notes) {
    Group& group = groups[{note.opcode, note.axes, note.source}];
    if (group.count++ == 0) group.first = note;
    group.bytes += note.bytes;
    total += note.bytes;
  }
  std::vector<Group> rows;
  for (auto& [key, group] : groups) rows.push_back(std::move(group));
  std::stable_sort(rows.begin(), rows.end(), [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
  if (notes.empty()) return "no collectives\n";
  const std::int64_t count = collective_count(notes);
  std::string out =
      fmt::format("{} collectives{}, {} received by each device:\n", count,
                  count == isize(notes) ? "" : fmt::format(" that carry {} values", notes.size()), bytes_text(total));
  out += fmt::format("  {:>6}  {:<20} {:<12} {:>10}  {}\n", "values", "collective", "axes", "bytes",
                     "reason of the first");
  constexpr std::size_t kMostRows = 12;
  for (std::size_t i = 0; i < std::min(kMostRows, rows.size()); ++i)
    out += fmt::format("  {:>6}  {:<20} {:<12} {:>10}  {}{}\n", rows[i].count, rows[i].first.opcode, rows[i].first.axes,
                       bytes_text(rows[i].bytes), rows[i].first.reason,
                       rows[i].first.source.empty() ? "" : "  (" + rows[i].first.source + ")");
  if (rows.size() <= kMostRows) return out;
  std::int64_t values = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = kMostRows; i < rows.size(); ++i) {
    values += rows[i].count;
    bytes += rows[i].bytes;
  }
  return out + fmt::format("  {:>6}  {:<33} {:>10}\n", values, "in other collectives", bytes_text(bytes));
}

}  // namespace tessera::trainer

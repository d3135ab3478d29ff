// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/layout_search.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "plan/step_plan.h"
#include "tessera/base/error.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {
namespace {

constexpr std::int64_t kTracedLayers = 3;

// What the choice of layouts needs to know about the model.
struct ModelFacts {
  std::int64_t layers = 0;
  std::int64_t key_heads = 0;
  bool has_experts = false;
  std::string layers_key;  // of the configuration
};

TrainingArguments planning_arguments(const LayoutSearchOptions& options) {
  TrainingArguments out = options.arguments;
  out.dry_run = true;
  if (!out.global_batch_size) out.global_batch_size = options.devices;
  return out;
}

void set_layers(TrainingArguments& arguments, const std::string& key, std::int64_t layers) {
  arguments.config_overrides += fmt::format("{}{}={}", arguments.config_overrides.empty() ? "" : ",", key, layers);
}

ModelFacts facts_of(const LayoutSearchOptions& options) {
  TrainingArguments arguments = planning_arguments(options);
  arguments.mesh = "data=1";
  return as_planner([&] {
    const ClmModel setup = make_clm_model(arguments);
    ModelFacts out;
    out.layers = setup.model->shape().layers;
    out.key_heads = setup.model->shape().key_heads;
    const JsonObject config = JsonObject::parse(setup.model->config_json());
    out.has_experts = config.has("num_local_experts");
    out.layers_key = config.has("n_layer") ? "n_layer" : "num_hidden_layers";
    return out;
  });
}

// The numbers of devices on the axes data, fsdp, model and expert.
std::vector<Layout> meshes(const LayoutSearchOptions& options, const ModelFacts& facts, std::int64_t rows) {
  std::vector<Layout> out;
  const auto divisors = [](std::int64_t n) {
    std::vector<std::int64_t> found;
    for (std::int64_t d = 1; d <= n; ++d)
      if (n % d == 0) found.push_back(d);
    return found;
  };
  for (const std::int64_t model : divisors(options.devices)) {
    if (model > facts.key_heads) break;
    for (const std::int64_t expert : divisors(facts.has_experts ? options.devices / model : 1))
      for (const std::int64_t fsdp : divisors(options.devices / model / expert)) {
        const std::int64_t data = options.devices / model / expert / fsdp;
        if (data * fsdp * expert <= rows) out.push_back({data, fsdp, model, expert});
      }
  }
  return out;
}

// The modes of a mesh, the fastest one first. Each one needs less memory than the one before it.
std::vector<Layout> modes_of(Layout layout) {
  std::vector<Layout> out;
  if (layout.fsdp > 1) {
    layout.reshard_after_forward = false;
    out.push_back(layout);
    layout.reshard_after_forward = true;
  }
  out.push_back(layout);
  layout.recompute = true;
  out.push_back(layout);
  return out;
}

// `fsdp+data` and `data+fsdp` are the same axes; some collectives name devices instead.
std::string axes_of(const CollectiveNote& note) {
  std::vector<std::string> axes = split(note.axes, '+');
  if (note.axes.find(' ') != std::string::npos) return "other";
  std::sort(axes.begin(), axes.end());
  return fmt::format("{}", fmt::join(axes, "+"));
}

void add(LayoutPlan& plan, const PlannedProgram& program, const MachineModel& machine) {
  const auto runs = static_cast<double>(program.runs);
  const Program& local = program.partitioned.program;
  for (const CollectiveNote& note : collective_notes(local, machine.links())) {
    constexpr double kMilli = 1e-3;
    plan.communication_seconds[axes_of(note)] += note.milliseconds * kMilli * runs;
    plan.received_bytes[axes_of(note)] += note.bytes * program.runs;
  }
  plan.cost.seconds += program_cost(local, machine).seconds * runs;
}

LayoutPlan plan_of(const LayoutSearchOptions& options, TrainingArguments arguments, const Layout& layout) {
  layout.apply_to(arguments);
  return as_planner([&] {
    const std::unique_ptr<Task> task = make_clm_task(arguments);
    const ExecutionOptions how = ExecutionOptions::for_plan(static_cast<int>(options.devices));
    LayoutPlan out;
    out.layout = layout;
    for (const PlannedProgram& program : plan_training_step(arguments, *task)) {
      add(out, program, options.machine);
      const ExecutableMemory memory = planned_memory(program.partitioned.program, how.ranks, how.schedule.nodes);
      out.cost.peak_bytes = std::max(out.cost.peak_bytes, memory.held_bytes());
    }
    return out;
  });
}

template <class T>
T linear(T two, T three, std::int64_t layers) {
  return std::max(T{}, three + (three - two) * static_cast<T>(layers - kTracedLayers));
}

template <class T>
std::map<std::string, T> linear(std::map<std::string, T> two, const std::map<std::string, T>& three,
                                std::int64_t layers) {
  std::map<std::string, T> out;
  for (const auto& [axes, value] : three) out[axes] = linear(two[axes], value, layers);
  return out;
}

LayoutPlan plan_all_layers_of(const LayoutSearchOptions& options, const ModelFacts& facts, const Layout& layout) {
  const TrainingArguments arguments = planning_arguments(options);
  if (facts.layers <= kTracedLayers) return plan_of(options, arguments, layout);
  TrainingArguments fewer = arguments;
  set_layers(fewer, facts.layers_key, kTracedLayers - 1);
  TrainingArguments more = arguments;
  set_layers(more, facts.layers_key, kTracedLayers);
  const LayoutPlan two = plan_of(options, fewer, layout);
  LayoutPlan out = plan_of(options, more, layout);
  out.cost.seconds = linear(two.cost.seconds, out.cost.seconds, facts.layers);
  out.cost.peak_bytes = linear(two.cost.peak_bytes, out.cost.peak_bytes, facts.layers);
  out.communication_seconds = linear(two.communication_seconds, out.communication_seconds, facts.layers);
  out.received_bytes = linear(two.received_bytes, out.received_bytes, facts.layers);
  return out;
}

// The fastest mode of a mesh that fits, or the one with the least memory.
LayoutPlan best_mode(const LayoutSearchOptions& options, const ModelFacts& facts, const Layout& mesh,
                     std::optional<std::int64_t> memory) {
  LayoutPlan out;
  for (const Layout& layout : modes_of(mesh)) {
    out = plan_all_layers_of(options, facts, layout);
    out.fits = !memory || out.cost.peak_bytes <= *memory;
    double communication = 0;
    for (const auto& [axes, seconds] : out.communication_seconds) communication += seconds;
    out.work_seconds = std::max(0.0, out.cost.seconds - communication);
    if (out.fits) break;
  }
  return out;
}

}  // namespace

std::string Layout::mesh() const {
  std::vector<std::string> axes;
  for (const auto& [name, size] :
       {std::pair("data", data), std::pair("fsdp", fsdp), std::pair("expert", expert), std::pair("model", model)})
    if (size > 1) axes.push_back(fmt::format("{}={}", name, size));
  return axes.empty() ? "data=1" : fmt::format("{}", fmt::join(axes, ","));
}

std::string Layout::flags() const {
  std::string out = "--mesh " + mesh();
  if (fsdp > 1) out += reshard_after_forward ? " --fsdp full_shard" : " --fsdp shard_grad_op";
  if (model > 1) out += " --tensor_parallel model";
  if (expert > 1) out += " --expert_parallel expert";
  if (recompute) out += " --gradient_checkpointing true";
  return out;
}

void Layout::apply_to(TrainingArguments& arguments) const {
  arguments.mesh = mesh();
  arguments.fsdp = fsdp == 1 ? "" : reshard_after_forward ? "full_shard" : "shard_grad_op";
  arguments.tensor_parallel = model > 1 ? "model" : "";
  arguments.expert_parallel = expert > 1 ? "expert" : "";
  arguments.gradient_checkpointing = recompute;
}

std::vector<LayoutPlan> find_layouts(const LayoutSearchOptions& options) {
  require(options.devices >= 1, "the number of devices must be at least 1, got {}", options.devices);
  const std::int64_t rows = *planning_arguments(options).global_batch_size;
  require(rows >= 1, "the number of rows of a batch must be at least 1, got {}", rows);
  const ModelFacts facts = facts_of(options);
  const std::optional<std::int64_t> memory = options.memory ? options.memory : options.machine.memory_bytes();
  const std::vector<Layout> candidates = meshes(options, facts, rows);
  require(!candidates.empty(),
          "there is no mesh of {} devices: a batch of {} rows can be sharded over at most as many devices as it has "
          "rows, and tensor parallelism is possible over at most as many devices as the model has key heads, {}",
          options.devices, rows, facts.key_heads);
  std::vector<LayoutPlan> plans(candidates.size());
  on_threads(candidates.size(), [&](std::size_t i) { plans[i] = best_mode(options, facts, candidates[i], memory); });
  std::stable_sort(plans.begin(), plans.end(), [](const LayoutPlan& a, const LayoutPlan& b) {
    if (a.fits != b.fits) return a.fits;
    return a.fits ? a.cost.seconds < b.cost.seconds : a.cost.peak_bytes < b.cost.peak_bytes;
  });
  return plans;
}

}  // namespace tessera::trainer

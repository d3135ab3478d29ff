// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/training_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/memory_traffic.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/nn/linear_cross_entropy.h"
#include "tessera/nn/models/gpt2_presets.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/sharding/placement.h"

namespace tessera::trainer {
namespace {

/// GPT-2 with a tied head, whose blocks may be checkpointed and whose logits are never complete.
class PlannedGPT2 : public nn::Callable<PlannedGPT2> {
 public:
  explicit PlannedGPT2(const TrainingPlanOptions& options) : options_(options), transformer_(options.config) {
    register_module("transformer", transformer_);
  }
  Tensor forward(const Tensor& tokens, const Tensor& labels) {
    const Tensor positions = transformer_.wpe().weight().slice(0, 0, tokens.dim(1));
    Tensor x = dropout(transformer_.wte()(tokens) + positions, options_.config.embd_pdrop);
    for (auto& block : transformer_.blocks()) {
      const auto call = [&](const Tensor& h) { return (*block)(h); };
      x = options_.checkpoint_blocks ? checkpoint(call)(x) : call(x);
    }
    return nn::linear_cross_entropy(transformer_.ln_f()(x), transformer_.wte().weight(), labels,
                                    {.chunks = options_.loss_chunks});
  }
  [[nodiscard]] std::string_view class_name() const override { return "GPT2LMHeadModel"; }

 private:
  const TrainingPlanOptions& options_;
  nn::GPT2Model transformer_;
};

Tensor planned_rows(const TrainingPlanOptions& options, const std::string& name, std::int64_t time) {
  Tensor rows = Tensor::abstract(Type::array(DType::kS32, {options.rows, time}), name);
  SpecEntry axes;
  for (const auto& axis : options.mesh.axes())
    if (axis.name == "data" || axis.name == "fsdp") axes.push_back(axis.name);
  mark_sharding(rows, options.mesh, PartitionSpec({PartitionSpec::Entry(axes), PartitionSpec::Entry()}));
  return rows;
}

std::int64_t stored_size(const std::vector<Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    const auto sharding = tensor.sharding();
    bytes += (sharding ? shard_type(tensor.type(), *sharding) : tensor.type()).byte_size();
  }
  return bytes;
}

void add_collectives(TrainingPlan& plan, const Partitioned& partitioned) {
  std::map<std::string, PlannedCollective> kinds;
  for (const CollectiveNote& note : partitioned.notes) {
    PlannedCollective& kind = kinds[note.opcode];
    kind.values += std::llround(note.rounds);
    kind.bytes += note.bytes;
  }
  for (auto& [opcode, kind] : kinds) {
    kind.opcode = opcode;
    plan.collectives.push_back(std::move(kind));
  }
}

void add_times(TrainingPlan& plan, const TrainingPlanOptions& options) {
  std::int64_t bytes = 0;
  for (const auto& kind : plan.collectives) bytes += kind.bytes;
  plan.compute_seconds = plan.flops_per_device / options.peak_flops;
  plan.communication_seconds = static_cast<double>(bytes) / options.bytes_per_second;
}

TrainingPlan plan_of_this_rank(const TrainingPlanOptions& options) {
  const std::int64_t devices = options.mesh.device_count();
  plan_for_devices(devices);
  set_default_mesh(options.mesh);
  PlannedGPT2 model(options);
  FsdpOptions fsdp = options.fsdp;
  fsdp.mesh = options.mesh;
  if (options.bf16) fsdp.compute_dtype = DType::kBF16;
  const auto units = fully_shard(model, fsdp);
  optim::AdamW optimizer(model.parameters(), {});
  const std::int64_t time = options.sequence == 0 ? options.config.n_positions : options.sequence;
  model(planned_rows(options, "tokens", time), planned_rows(options, "labels", time)).backward();
  optimizer.step();
  optimizer.zero_grad();
  const StepPlan step = plan_step();
  TrainingPlan out;
  out.parameters = model.parameter_count();
  out.tokens = options.rows * time;
  out.parameter_bytes = stored_size(model.parameters());
  std::vector<Tensor> state;
  for (auto& named : optimizer.named_state()) state.push_back(named.tensor);
  out.state_bytes = stored_size(state);
  for (std::size_t i = 1; i < units.size(); ++i)
    out.largest_unit_bytes = std::max(out.largest_unit_bytes, units[i].bytes);
  const auto how = ExecutionOptions::for_plan(static_cast<int>(devices));
  const ExecutableMemory memory = planned_memory(step.partitioned.program, how.ranks, how.schedule.nodes);
  out.arena_bytes = memory.arena;
  out.peak_bytes = memory.held_bytes();
  out.flops_per_device = execution_stats(step.partitioned.program, how).flops_per_device;
  out.traffic_bytes = memory_traffic(step.partitioned.program);
  add_collectives(out, step.partitioned);
  add_times(out, options);
  return out;
}

TrainingPlan plan_with_layers(TrainingPlanOptions options, std::int64_t layers) {
  options.config.n_layer = layers;
  RankContext context(0, 1);
  const RankScope scope(context);
  return plan_of_this_rank(options);
}

template <class T>
T extended(T two, T three, std::int64_t layers) {
  return two + (three - two) * static_cast<T>(layers - 2);
}

}  // namespace

double TrainingPlan::nominal_pflop() const {
  constexpr double kPeta = 1e15;
  return 6.0 * static_cast<double>(parameters) * static_cast<double>(tokens) / kPeta;
}

double TrainingPlan::utilization(std::int64_t devices, double peak_flops) const {
  constexpr double kPeta = 1e15;
  return nominal_pflop() * kPeta / fastest_seconds() / static_cast<double>(devices) / peak_flops;
}

TrainingPlan plan_all_layers(const TrainingPlanOptions& options) {
  return plan_with_layers(options, options.config.n_layer);
}

TrainingPlan plan_gpt2_training(const TrainingPlanOptions& options) {
  options.config.check();
  const std::int64_t layers = options.config.n_layer;
  constexpr std::int64_t kTraced = 3;
  if (layers <= kTraced) return plan_all_layers(options);
  const TrainingPlan two = plan_with_layers(options, 2);
  const TrainingPlan three = plan_with_layers(options, kTraced);
  TrainingPlan out = three;
  const auto extend = [&](auto member) { out.*member = extended(two.*member, three.*member, layers); };
  for (const auto member : {&TrainingPlan::parameters, &TrainingPlan::parameter_bytes, &TrainingPlan::state_bytes,
                            &TrainingPlan::arena_bytes, &TrainingPlan::peak_bytes, &TrainingPlan::traffic_bytes})
    extend(member);
  extend(&TrainingPlan::flops_per_device);
  for (PlannedCollective& kind : out.collectives) {
    const auto before = std::find_if(two.collectives.begin(), two.collectives.end(),
                                     [&](const PlannedCollective& other) { return other.opcode == kind.opcode; });
    const PlannedCollective none;
    const PlannedCollective& base = before == two.collectives.end() ? none : *before;
    kind.values = extended(base.values, kind.values, layers);
    kind.bytes = extended(base.bytes, kind.bytes, layers);
  }
  add_times(out, options);
  return out;
}

std::string TrainingPlan::str() const {
  const auto bytes = [](std::int64_t count) { return format_bytes(static_cast<double>(count)); };
  std::string out =
      fmt::format("{} parameters, {} tokens in a step, {:.4g} PFLOP by 6 N T\n", parameters, tokens, nominal_pflop());
  out += fmt::format("memory of a device: parameters {}, optimizer state {}, arena {}, peak {}; largest unit {}\n",
                     bytes(parameter_bytes), bytes(state_bytes), bytes(arena_bytes), bytes(peak_bytes),
                     bytes(largest_unit_bytes));
  out += fmt::format("a device executes {:.4g} FLOP\n", flops_per_device);
  for (const auto& kind : collectives)
    out += fmt::format("{} values in {}, {} received\n", kind.values, kind.opcode, bytes(kind.bytes));
  return out + fmt::format("modelled step: computation {:.4g} s, communication {:.4g} s; {:.4g} s to {:.4g} s\n",
                           compute_seconds, communication_seconds, fastest_seconds(), slowest_seconds());
}

}  // namespace tessera::trainer

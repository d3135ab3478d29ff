// SPDX-License-Identifier: Apache-2.0
// A step planned for a mesh that need not be there: nothing has storage, nothing runs.
#include "tessera/base/files.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/schedule/schedule.h"
#include "tessera/sharding/placement.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {
namespace {

StepPlan plan_training_step(const TrainingArguments& arguments, ClmModel& setup) {
  const std::int64_t rows = arguments.micro_batch_rows(setup.data_shards);
  const Type batch = Type::array(DType::kS32, {rows, setup.block_size});
  const Tensor tokens = place_rows(setup, Tensor::abstract(batch, "tokens"));
  const Tensor labels = place_rows(setup, Tensor::abstract(batch, "labels"));
  const Tensor loss = (*setup.model)(tokens, labels);
  loss.backward();
  if (arguments.max_grad_norm > 0) optim::clip_grad_norm(setup.model->parameters(), arguments.max_grad_norm);
  setup.optimizer->step();
  setup.optimizer->zero_grad();
  return plan_step();
}

double stored_bytes(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const auto& tensor : tensors) {
    const auto sharding = tensor.sharding();
    bytes += static_cast<double>((sharding ? shard_type(tensor.type(), *sharding) : tensor.type()).byte_size());
  }
  return bytes;
}

std::string memory_report(const ClmModel& setup, const StepPlan& plan) {
  std::vector<Tensor> state;
  for (auto& named : setup.optimizer->named_state()) state.push_back(std::move(named.tensor));
  const auto schedule = make_schedule(plan.partitioned.program);
  std::string out = "memory of a device:\n";
  const auto line = [&](const char* what, double bytes) {
    out += fmt::format("  {:<34} {:>10}\n", what, format_bytes(bytes));
  };
  line("parameters", stored_bytes(setup.model->parameters()));
  line("optimizer state", stored_bytes(state));
  line("activations, gathered weights, rest", static_cast<double>(schedule->arena_bytes));
  line("all at the peak", static_cast<double>(schedule->peak_bytes()));
  return out;
}

}  // namespace

int dry_run_clm(const TrainingArguments& arguments) {
  if (RankContext::current().rank() != 0) return 0;  // one rank can say it all
  plan_for_devices(device_count());
  ClmModel setup = make_clm_model(arguments);
  std::string out = banner(arguments, setup) + sharding_report(setup);
  const StepPlan plan = plan_training_step(arguments, setup);
  const ProgramStats stats = program_stats(plan.partitioned.program);
  out += memory_report(setup, plan);
  out += fmt::format("one device executes {:.4g} FLOP per step\n", stats.flops_per_device);
  out += collective_report(plan.partitioned.notes);
  write_standard_output(out);
  return 0;
}

}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
#include "training/gpt2_training.h"

#include <algorithm>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::testing {
namespace {

nn::GPT2Config config_of(const TrainingCase& options) {
  nn::GPT2Config config;
  config.vocab_size = options.vocabulary;
  config.n_positions = options.time;
  config.n_embd = options.width;
  config.n_layer = options.layers;
  config.n_head = options.heads;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = options.dropout;
  config.dtype = options.dtype;
  return config;
}

bool has_axis(const Mesh& mesh, const std::string& name) {
  return std::any_of(mesh.axes().begin(), mesh.axes().end(), [&](const auto& axis) { return axis.name == name; });
}

std::int64_t counter(std::string_view name) { return metrics().counter_value(name).value_or(0); }

constexpr std::string_view kKinds[] = {"all-gather",           "all-reduce",         "all-to-all",
                                       "collective-broadcast", "collective-permute", "reduce-scatter"};

}  // namespace

std::int64_t device_count_of(const std::string& mesh) { return Mesh::parse(mesh, 0).device_count(); }

Training::Training(const TrainingCase& options) : options_(options), mesh_(Mesh::parse(options.mesh, 0)) {
  set_default_mesh(mesh_);
  model_ = std::make_unique<nn::GPT2LMHeadModel>(config_of(options));
  if (has_axis(mesh_, "model")) nn::shard_tensor_parallel(*model_, mesh_, "model");
  if (options.mixed_precision.param_dtype) model_->set_compute_dtype(*options.mixed_precision.param_dtype);
  if (has_axis(mesh_, "fsdp"))
    fully_shard(*model_, {.mesh = mesh_,
                          .reshard_after_forward = options.reshard_after_forward,
                          .mixed_precision = options.mixed_precision});
  optimizer_ = std::make_unique<optim::AdamW>(model_->parameters(),
                                              optim::AdamWOptions{.learning_rate = 1e-3, .weight_decay = 0.01});
}

Tensor Training::batch(std::int64_t number, std::int64_t rows, std::int64_t offset) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows * options_.time));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>((static_cast<std::int64_t>(i * 7 + i * i % 13) + offset + 31 * number) %
                                          options_.vocabulary);
  Tensor out = Tensor::from<std::int32_t>({rows, options_.time}, tokens);
  std::vector<std::string> axes;
  for (const char* axis : {"data", "fsdp"})
    if (has_axis(mesh_, axis)) axes.emplace_back(axis);
  if (!axes.empty())
    mark_sharding(out, mesh_, PartitionSpec({PartitionSpec::Entry(SpecEntry(axes)), PartitionSpec::Entry()}));
  return out;
}

Tensor Training::gradients(std::int64_t number, std::int64_t rows) {
  const std::int64_t count = rows == 0 ? options_.rows : rows;
  Tensor loss = (*model_)(batch(number, count, 0), batch(number, count, 1));
  loss.backward();
  return loss;
}

Tensor Training::record(std::int64_t number, std::int64_t rows) {
  Tensor loss = gradients(number, rows);
  optim::clip_grad_norm(model_->parameters(), 1.0);
  optimizer_->step();
  optimizer_->zero_grad();
  return loss;
}

Tensor Training::step(std::int64_t number, std::int64_t rows) {
  Tensor loss = record(number, rows);
  mark_step();
  return loss;
}

std::vector<RankFigures> measure_step(const TrainingCase& options) {
  const int ranks = static_cast<int>(device_count_of(options.mesh));
  std::vector<RankFigures> out(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](int rank) {
    Training training(options);
    training.step(0);
    metrics().clear_counters();
    Tensor loss = training.step(1);
    RankFigures& mine = out[static_cast<std::size_t>(rank)];
    mine.flops = static_cast<double>(counter("FlopsExecuted"));
    for (const auto kind : kKinds)
      if (const auto bytes = counter("CollectiveBytes::" + std::string(kind)); bytes > 0)
        mine.collectives.push_back({std::string(kind), 0, bytes});
    mine.through_mpi = counter("CollectiveBytes::through-mpi");
    mine.program = compiled_programs().back();
    mine.loss = loss.item();
  });
  return out;
}

StepPlan plan_of(const TrainingCase& options) {
  const FreshRank rank;
  plan_for_devices(device_count_of(options.mesh));
  Training training(options);
  const Tensor loss = training.record(0);
  return plan_step();
}

}  // namespace tessera::testing

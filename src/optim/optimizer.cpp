// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/optimizer.h"

#include "tessera/base/error.h"
#include "tessera/frontend/tracing/trace.h"

namespace tessera::optim {
namespace {

constexpr const char* kStepName = "step";

}  // namespace

Optimizer::Optimizer(std::vector<ParameterGroup> groups, double learning_rate)
    : groups_(std::move(groups)), learning_rate_(learning_rate) {
  require(learning_rate >= 0, "the learning rate must not be negative, got {}", learning_rate);
  std::size_t count = 0;
  for (const auto& group : groups_) {
    for (const auto& parameter : group.parameters) {
      require(!parameter.impl().has_optimizer_state, "{} already belongs to an optimizer", parameter.name());
      parameter.impl().has_optimizer_state = true;
      ++count;
    }
  }
  require(count > 0, "an optimizer needs at least one parameter");
}

Optimizer::~Optimizer() {
  for (const auto& parameter : parameters()) parameter.impl().has_optimizer_state = false;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> out;
  for (const auto& group : groups_) out.insert(out.end(), group.parameters.begin(), group.parameters.end());
  return out;
}

StateDict Optimizer::state_dict() const {
  StateDict out;
  for (auto& state : named_state()) out.add({std::move(state.name), std::move(state.tensor), {}});
  out.add({kStepName, Tensor::from_host(scalar_of(DType::kS64, static_cast<double>(steps_))), {}});
  return out;
}

LoadStateResult Optimizer::load_state_dict(const StateDict& source, const LoadStateOptions& options) {
  LoadStateResult result = load_state(state_dict(), source, "the optimizer", options);
  if (const NamedTensor* step = source.find(kStepName)) set_step_count(static_cast<std::int64_t>(step->tensor.item()));
  return result;
}

DType Optimizer::state_dtype(const Tensor& parameter) {
  return parameter.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
}

void Optimizer::place_state() {
  if (is_placed_) return;
  is_placed_ = true;
  const std::vector<Tensor> updated = parameters();
  const auto states = named_state();
  const int per_parameter = isize(states) / isize(updated);
  for (int i = 0; i < isize(states); ++i) {
    const TensorImpl& parameter = at(updated, i / per_parameter).impl();
    Node& state = *at(states, i).tensor.impl().node;
    if (state.is_deferred() && !parameter.grad.is_null()) state.sharding = parameter.gradient_storage;
  }
}

std::vector<Tensor> Optimizer::make_state(const std::string& prefix) const {
  std::vector<Tensor> out;
  for (const auto& parameter : parameters())
    out.push_back(Tensor::zeros_like_variable(parameter, state_dtype(parameter), prefix + "." + parameter.name()));
  return out;
}

Tensor Optimizer::input(DType dtype, const std::function<double()>& value, const std::string& name) {
  Tensor out = Tensor::scalar(dtype, value);
  out.set_name(name);
  return out;
}

void Optimizer::step(std::source_location where) {
  const TraceScope scope("optimizer", "");
  trace().builder().default_notes = trace().notes(where);
  trace().at_each_call([this] { ++steps_; }, [this] { --steps_; });
  place_state();
  begin_step();
  int index = 0;
  for (const auto& group : groups_) {
    for (const auto& parameter : group.parameters) {
      if (!parameter.grad().is_null()) update(index, parameter, stored_tensor(parameter.grad()), group.weight_decay);
      ++index;
    }
  }
}

void optimizer_step(Optimizer& optimizer, OptimizerStepOptions options, std::source_location where) {
  for (const Tensor& parameter : optimizer.parameters())
    require(!parameter.impl().unshard,
            "optimizer_step() is for parameters that every rank holds, but FSDP shards {}; call optimizer.step()",
            parameter.name());
  optimizer.step(where);
  if (options.barrier) mark_step(where);
}

void Optimizer::zero_grad() {
  for (auto& parameter : parameters()) parameter.zero_grad();
}

}  // namespace tessera::optim

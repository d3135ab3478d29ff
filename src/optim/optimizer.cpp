// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/optimizer.h"

#include <fmt/format.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::optim {
namespace {

constexpr const char* kStepName = "step";

}  // namespace

Optimizer::Optimizer(double learning_rate) : learning_rate_(learning_rate), initial_rate_(learning_rate) {
  require(learning_rate >= 0, "the learning rate must not be negative, got {}", learning_rate);
}

Optimizer::Optimizer(std::vector<ParameterGroup> groups, double learning_rate) : Optimizer(learning_rate) {
  std::size_t count = 0;
  for (const auto& group : groups) {
    require(group.learning_rate.value_or(0) >= 0, "the learning rate of a group must not be negative, got {}",
            group.learning_rate.value_or(0));
    require(group.weight_decay >= 0, "weight_decay must not be negative, got {}", group.weight_decay);
    for (const auto& parameter : group.parameters) {
      require(!parameter.impl().has_optimizer_state, "{} already belongs to an optimizer", parameter.name());
      parameter.impl().has_optimizer_state = true;
      groups_.push_back({{parameter}});  // so that the destructor resets the flag if this constructor fails
      ++count;
    }
  }
  groups_ = std::move(groups);
  for (const auto& parameter : Optimizer::parameters()) is_frozen_.push_back(!parameter.requires_grad());
  require(count > 0, "an optimizer needs at least one parameter");
}

Optimizer::~Optimizer() {
  for (const auto& group : groups_)
    for (const auto& parameter : group.parameters) parameter.impl().has_optimizer_state = false;
}

double Optimizer::learning_rate_of(int group) const {
  const std::optional<double>& own = at(groups_, group).learning_rate;
  if (!own) return learning_rate_;
  return initial_rate_ > 0 ? *own * (learning_rate_ / initial_rate_) : *own;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> out;
  for (const auto& group : groups_) out.insert(out.end(), group.parameters.begin(), group.parameters.end());
  return out;
}

std::vector<NamedState> Optimizer::named_state() const {
  std::vector<NamedState> out;
  const int count = isize(Optimizer::parameters());
  for (int i = 0; i < count; ++i)
    for (const auto& state : states_) state->append_to(out, i);
  return out;
}

std::string Optimizer::note() const {
  FormatCounts counts{.format = asked_format_};
  for (const auto& state : states_) state->count_formats(counts);
  if (counts.others == 0) return "";
  const double percent =
      100 * static_cast<double>(counts.other_elements) / static_cast<double>(counts.elements + counts.other_elements);
  constexpr double kThreeDigits = 99.5;  // 100, not 1e+02
  return fmt::format(
      "{} of {} state variables ({:.{}g}% of the elements) are in {} although state in {} was asked for: they have "
      "fewer "
      "than 4096 elements",
      counts.others, counts.others + counts.as_asked, percent, percent < kThreeDigits ? 2 : 3,
      parameters().front().dtype() == DType::kF64 ? "f64" : "f32",
      asked_format_ == StateFormat::kInt8 ? "8 bits" : "bf16");
}

std::string Optimizer::class_name() const { return class_name_of(typeid(*this)); }

StateDict Optimizer::state_dict() const {
  StateDict out;
  out.set_class_name(class_name());
  for (auto& state : named_state()) out.add({std::move(state.name), std::move(state.tensor), {}});
  const std::weak_ptr<Optimizer> weak = self_;  // a StateDict may exist longer than the optimizer
  out.add_number(kStepName, {.get = [weak]() -> std::optional<std::int64_t> {
                               if (const auto self = weak.lock()) return self->step_count();
                               return std::nullopt;
                             },
                             .set =
                                 [weak](std::int64_t steps) {
                                   if (const auto self = weak.lock()) self->set_step_count(steps);
                                 }});
  return out;
}

LoadStateResult Optimizer::load_state_dict(const StateDict& source, const LoadStateOptions& options) {
  return load_state(state_dict(), source, "the optimizer", options);
}

// ---- for subclasses ---------------------------------------------------------------------------------------------------

StateQuantity& Optimizer::make_state(const std::string& prefix, const StateOptions& options) {
  if (options.format != StateFormat::kFull) asked_format_ = options.format;
  StateOptions own = options;
  own.has_state = [has_state = options.has_state](const Tensor& parameter) {
    return parameter.requires_grad() && (!has_state || has_state(parameter));
  };
  return *states_.emplace_back(std::make_unique<StateQuantity>(prefix, Optimizer::parameters(), std::move(own)));
}

void Optimizer::write(StateQuantity& state, const Update& update, const Tensor& value) const {
  state.write(update.index, value, applies_);
}

Tensor Optimizer::penalized_gradient(const Update& update) {
  return update.weight_decay == 0 ? update.gradient : update.gradient + update.value * update.weight_decay;
}

Tensor Optimizer::decayed_value(const Update& update) {
  if (update.weight_decay == 0) return update.value;
  return update.value - update.value * (rate(update) * update.weight_decay);
}

std::string Optimizer::suffix_of(int group) const {
  return at(groups_, group).learning_rate ? fmt::format(".{}", group) : "";
}

Tensor Optimizer::rate(const Update& update) {
  return step_input("learning_rate" + suffix_of(update.group), update.dtype,
                    [this, group = update.group] { return learning_rate_of(group); });
}

Tensor Optimizer::step_input(const std::string& name, DType dtype, const std::function<double()>& value) {
  Tensor& out = inputs_[{name, dtype}];
  if (out.is_null()) {
    out = Tensor::scalar(dtype, value);
    out.set_name(name);
  }
  return out;
}

Tensor Optimizer::step_number() {
  const Tensor calls = step_input("step", DType::kF64, [this] { return static_cast<double>(step_count()); });
  return maximum(calls - stored_tensor(skipped_).to(DType::kF64), 1.0);
}

void Optimizer::set_condition(const Tensor& applies, const Tensor& skipped) {
  applies_ = applies;
  skipped_ = skipped;
}

// ---- steps --------------------------------------------------------------------------------------------------------------

void Optimizer::step(std::source_location where) {
  const TraceScope scope("optimizer", "");
  trace().builder().default_notes = trace().notes(where);
  trace().at_each_call([this] { ++steps_; }, [this] { --steps_; });
  update_all(where);
}

void Optimizer::update_all(std::source_location /*where*/) {
  inputs_.clear();
  int index = 0;
  for (int group = 0; group < isize(groups_); ++group) update_group(group, index);
}

void Optimizer::update_group(int group, int& index) {
  const ParameterGroup& own = at(groups_, group);
  for (Tensor parameter : own.parameters) {
    const int number = index++;
    if (parameter.grad().is_null()) continue;
    require(!is_frozen_[static_cast<std::size_t>(number)],
            "{} has a gradient, but it did not require one when the optimizer was made, so it has no state; make the "
            "optimizer after set_requires_grad()",
            parameter.name());
    for (const auto& state : states_) state->place(number, parameter);
    const DType dtype = update_dtype(parameter);
    const Tensor stored = stored_tensor(parameter);
    const Tensor gradient = stored_tensor(parameter.grad()).to(dtype);
    const Tensor value =
        update({number, group, own.weight_decay, dtype, parameter, stored.to(dtype), maximizes_ ? -gradient : gradient})
            .to(parameter.dtype());
    parameter.assign(applies_.is_null() ? value : tessera::where(applies_, value, stored));
  }
}

void optimizer_step(Optimizer& optimizer, OptimizerStepOptions options, std::source_location where) {
  for (const Tensor& parameter : optimizer.parameters())
    require(!parameter.impl().unshard,
            "optimizer_step() is for parameters that every rank holds, but FSDP shards {}; call optimizer.step()",
            parameter.name());
  optimizer.step(where);
  const SyncScope place("sync::optimizer_step");
  if (options.barrier) mark_step(where);
}

void Optimizer::zero_grad() {
  for (auto& parameter : parameters()) parameter.zero_grad();
}

}  // namespace tessera::optim

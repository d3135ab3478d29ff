// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/combined_optimizer.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::optim {
namespace {

double rate_of_first(const std::vector<std::unique_ptr<Optimizer>>& optimizers) {
  require(!optimizers.empty(), "CombinedOptimizer needs at least one optimizer");
  return optimizers.front()->learning_rate();
}

}  // namespace

CombinedOptimizer::CombinedOptimizer(std::vector<std::unique_ptr<Optimizer>> optimizers)
    : Optimizer(rate_of_first(optimizers)), optimizers_(std::move(optimizers)) {
  for (const auto& optimizer : optimizers_) initial_rates_.push_back(optimizer->learning_rate());
}

void CombinedOptimizer::set_learning_rate(double value) {
  Optimizer::set_learning_rate(value);
  for (std::size_t i = 0; i < optimizers_.size(); ++i)
    optimizers_[i]->set_learning_rate(initial_rate_ > 0 ? initial_rates_[i] * (value / initial_rate_) : value);
}

void CombinedOptimizer::set_step_count(std::int64_t steps) {
  Optimizer::set_step_count(steps);
  for (const auto& optimizer : optimizers_) optimizer->set_step_count(steps);
}

std::vector<Tensor> CombinedOptimizer::parameters() const {
  std::vector<Tensor> out;
  for (const auto& optimizer : optimizers_) std::ranges::copy(optimizer->parameters(), std::back_inserter(out));
  return out;
}

std::vector<Optimizer::NamedState> CombinedOptimizer::named_state() const {
  std::vector<NamedState> out;
  for (const auto& optimizer : optimizers_) std::ranges::copy(optimizer->named_state(), std::back_inserter(out));
  return out;
}

std::string CombinedOptimizer::note() const {
  std::string out;
  for (const auto& optimizer : optimizers_) {
    const std::string own = optimizer->note();
    if (!own.empty()) out += (out.empty() ? "" : "; ") + own;
  }
  return out;
}

std::string CombinedOptimizer::class_name() const {
  std::string out;
  for (const auto& optimizer : optimizers_) out += (out.empty() ? "" : " and ") + optimizer->class_name();
  return "CombinedOptimizer of " + out;
}

void CombinedOptimizer::set_condition(const Tensor& applies, const Tensor& skipped) {
  for (const auto& optimizer : optimizers_) optimizer->set_condition(applies, skipped);
}

void CombinedOptimizer::update_all(std::source_location where) {
  for (const auto& optimizer : optimizers_) optimizer->step(where);
}

Tensor CombinedOptimizer::update(const Update& update) { return update.value; }

}  // namespace tessera::optim

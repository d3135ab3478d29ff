// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::optim::lr_scheduler {
namespace {

double part_of(std::int64_t step, std::int64_t total) {
  return static_cast<double>(std::min(step, total)) / static_cast<double>(total);
}

std::int64_t positive(std::string_view schedule, std::string_view name, std::int64_t value) {
  require(value >= 1, "{}: {} must be positive, got {}", schedule, name, value);
  return value;
}

// From `start` to `end` for `part` from 0 to 1.
double annealed(AnnealStrategy strategy, double start, double end, double part) {
  if (strategy == AnnealStrategy::kLinear) return start + (end - start) * part;
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer, Rate rate) : optimizer_(&optimizer), rate_(std::move(rate)) { apply(); }

void LRScheduler::apply() { optimizer_->set_learning_rate(rate_(steps_, optimizer_->initial_learning_rate())); }

void LRScheduler::step() {
  ++steps_;
  apply();
}

double LRScheduler::get_last_lr() const { return optimizer_->learning_rate(); }

std::map<std::string, double> LRScheduler::state_dict() const { return {{"last_epoch", static_cast<double>(steps_)}}; }

void LRScheduler::load_state_dict(const std::map<std::string, double>& state) {
  const auto found = state.find("last_epoch");
  require(found != state.end(), "the state of a learning-rate schedule has no last_epoch");
  steps_ = static_cast<std::int64_t>(found->second);
  apply();
}

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma)
    : LRScheduler(optimizer,
                  [size = positive("StepLR", "step_size", step_size), gamma](std::int64_t step, double base) {
                    const std::int64_t reached = step / size;
                    return base * std::pow(gamma, static_cast<double>(reached));
                  }) {}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma)
    : LRScheduler(optimizer, [milestones = std::move(milestones), gamma](std::int64_t step, double base) {
        const auto reached = std::count_if(milestones.begin(), milestones.end(), [&](auto m) { return m <= step; });
        return base * std::pow(gamma, static_cast<double>(reached));
      }) {}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer, [gamma](std::int64_t step, double base) {
        return base * std::pow(gamma, static_cast<double>(step));
      }) {}

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, std::int64_t total_iters)
    : LRScheduler(optimizer, [factor, total_iters](std::int64_t step, double base) {
        return step < total_iters ? base * factor : base;
      }) {}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor, std::int64_t total_iters)
    : LRScheduler(optimizer,
                  [=, total = positive("LinearLR", "total_iters", total_iters)](std::int64_t step, double base) {
                    return base * (start_factor + (end_factor - start_factor) * part_of(step, total));
                  }) {}

PolynomialLR::PolynomialLR(Optimizer& optimizer, std::int64_t total_iters, double power)
    : LRScheduler(optimizer,
                  [=, total = positive("PolynomialLR", "total_iters", total_iters)](std::int64_t step, double base) {
                    return base * std::pow(1 - part_of(step, total), power);
                  }) {}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min)
    : LRScheduler(optimizer,
                  [=, total = positive("CosineAnnealingLR", "t_max", t_max)](std::int64_t step, double base) {
                    const double part = static_cast<double>(step) / static_cast<double>(total);
                    return annealed(AnnealStrategy::kCos, base, eta_min, part);
                  }) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t step)> factor)
    : LRScheduler(optimizer,
                  [factor = std::move(factor)](std::int64_t step, double base) { return base * factor(step); }) {}

namespace {

LRScheduler::Rate one_cycle(double max_lr, std::int64_t total_steps, const OneCycleOptions& options) {
  require(options.pct_start >= 0 && options.pct_start <= 1, "OneCycleLR: pct_start must be from 0 to 1, got {}",
          options.pct_start);
  const auto total = static_cast<double>(positive("OneCycleLR", "total_steps", total_steps));
  const double first = max_lr / options.div_factor, last = first / options.final_div_factor;
  struct Phase {
    double end, from, to;
  };
  const double top = options.pct_start * total - 1;
  std::vector<Phase> phases{{top, first, max_lr}};
  if (options.three_phase) phases.push_back({2 * top, max_lr, first});
  phases.push_back({total - 1, options.three_phase ? first : max_lr, last});
  return [=, strategy = options.anneal_strategy](std::int64_t step, double) {
    require(step <= total_steps, "OneCycleLR: step {} of {}", step, total_steps);
    double start = 0;
    for (const Phase& phase : phases) {
      if (static_cast<double>(step) <= phase.end)
        return annealed(strategy, phase.from, phase.to,
                        phase.end > start ? (static_cast<double>(step) - start) / (phase.end - start) : 1);
      start = phase.end;
    }
    return last;
  };
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, double max_lr, std::int64_t total_steps, const OneCycleOptions& options)
    : LRScheduler(optimizer, one_cycle(max_lr, total_steps, options)) {}

SequentialLR::SequentialLR(Optimizer& optimizer, const std::vector<LRScheduler>& schedulers,
                           const std::vector<std::int64_t>& milestones)
    : LRScheduler(optimizer, [schedulers, milestones](std::int64_t step, double base) {
        require(!schedulers.empty() && milestones.size() + 1 == schedulers.size(),
                "SequentialLR: needs one milestone less than schedules, got {} for {} schedules", milestones.size(),
                schedulers.size());
        require(std::is_sorted(milestones.begin(), milestones.end()), "SequentialLR: the milestones must ascend");
        const auto next = std::upper_bound(milestones.begin(), milestones.end(), step);
        const auto index = static_cast<std::size_t>(next - milestones.begin());
        return schedulers[index].rate_(index == 0 ? step : step - milestones[index - 1], base);
      }) {
  for (const LRScheduler& each : schedulers)
    require(each.optimizer_ == &optimizer, "SequentialLR: all schedules must be those of the same optimizer");
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(&optimizer),
      schedule_(ScheduleType::kReduceOnPlateau, optimizer.learning_rate(), 0, 1,
                {.min_lr = options.min_lr,
                 .mode = options.mode,
                 .factor = options.factor,
                 .patience = options.patience,
                 .threshold = options.threshold,
                 .threshold_mode = options.threshold_mode,
                 .cooldown = options.cooldown,
                 .eps = options.eps}) {}

void ReduceLROnPlateau::step(double metric) {
  schedule_.note_metric(metric);
  schedule_.apply(*optimizer_);
}

void ReduceLROnPlateau::load_state_dict(const std::map<std::string, double>& state) {
  schedule_.set_state(state);
  schedule_.apply(*optimizer_);
}

}  // namespace tessera::optim::lr_scheduler

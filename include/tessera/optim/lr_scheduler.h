// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules under the names of torch.optim.lr_scheduler, with its arguments and defaults. schedule.h has
// those of Hugging Face.
//
//   optim::lr_scheduler::CosineAnnealingLR scheduler(optimizer, 100);
//   for (...) {
//     optimizer.step();
//     scheduler.step();
//   }
//
// The rate is an input of the program, so a new rate does not cause a compilation. Every schedule sets the rate that its
// formula gives for its number of steps. The base rate is the one with which the optimizer was made.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/optim/optimizer.h"
#include "tessera/optim/schedule.h"

namespace tessera::optim::lr_scheduler {

/// The base of the schedules. The optimizer must outlive it.
class LRScheduler {
 public:
  /// The rate as a function of the number of steps and of the base rate.
  using Rate = std::function<double(std::int64_t step, double base_rate)>;
  /// Sets the rate of step 0.
  LRScheduler(Optimizer& optimizer, Rate rate);
  /// Sets the rate of the next step.
  void step();
  /// The rate that was set last.
  [[nodiscard]] double get_last_lr() const;
  /// The number of calls of step().
  [[nodiscard]] std::int64_t last_epoch() const { return steps_; }
  /// The state by name, to resume a run: `last_epoch`.
  [[nodiscard]] std::map<std::string, double> state_dict() const;
  /// Sets the state and the rate of the optimizer. Error without `last_epoch`.
  void load_state_dict(const std::map<std::string, double>& state);

 private:
  friend class SequentialLR;
  void apply();
  Optimizer* optimizer_;
  Rate rate_;
  std::int64_t steps_ = 0;
};

/// Multiplies the rate by `gamma` every `step_size` steps.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);
};
/// Multiplies the rate by `gamma` at each of the steps `milestones`.
class MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma = 0.1);
};
/// Multiplies the rate by `gamma` at each step.
class ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);
};
/// The base rate times `factor` before step `total_iters`, then the base rate.
class ConstantLR : public LRScheduler {
 public:
  explicit ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, std::int64_t total_iters = 5);
};
/// The base rate times a factor that changes linearly from `start_factor` to `end_factor` in `total_iters` steps.
class LinearLR : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
                    std::int64_t total_iters = 5);
};
/// The base rate times (1 - step / total_iters)^power, and 0 from step `total_iters` on.
class PolynomialLR : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, std::int64_t total_iters = 5, double power = 1);
};
/// Half a wave of a cosine from the base rate to `eta_min` in `t_max` steps; then the wave continues.
class CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min = 0);
};
/// The base rate times factor(step).
class LambdaLR : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t step)> factor);
};

/// How OneCycleLR moves between two rates: along half a wave of a cosine, or linearly.
enum class AnnealStrategy : std::uint8_t { kCos, kLinear };
struct OneCycleOptions {
  double pct_start = 0.3;  // the fraction of the steps in which the rate rises
  AnnealStrategy anneal_strategy = AnnealStrategy::kCos;
  double div_factor = 25;         // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last rate is the first rate / final_div_factor
  bool three_phase = false;  // falls first to the first rate, in as many steps as it has risen, and then to the last
};
/// A rate that rises to `max_lr` and falls again within `total_steps` updates (Smith and Topin, 2019). Does not change
/// the momentum. Error of step() after more than `total_steps` steps.
class OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, double max_lr, std::int64_t total_steps, const OneCycleOptions& options = {});
};

/// One schedule after the other: schedule i + 1 begins with its step 0 at step milestones[i]. Error unless there is one
/// milestone less than schedules, in ascending order, or if the schedules are those of other optimizers.
class SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, const std::vector<LRScheduler>& schedulers,
               const std::vector<std::int64_t>& milestones);
};

struct PlateauOptions {
  std::string mode = "min";  // "max": larger metrics are better
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";
  std::int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;
};
/// Multiplies the rate by `factor` if the metric has not improved for more than `patience` calls of step().
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});
  /// Takes the metric of an evaluation.
  void step(double metric);
  [[nodiscard]] double get_last_lr() const { return optimizer_->learning_rate(); }
  /// The state by name, to resume a run.
  [[nodiscard]] std::map<std::string, double> state_dict() const { return schedule_.state(); }
  /// Sets the state and the rate of the optimizer.
  void load_state_dict(const std::map<std::string, double>& state);

 private:
  Optimizer* optimizer_;
  Schedule schedule_;
};

}  // namespace tessera::optim::lr_scheduler

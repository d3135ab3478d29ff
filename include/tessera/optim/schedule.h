// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules of Hugging Face's Trainer, with its arguments and defaults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

/// The kinds of schedules. schedule_names() has their names.
enum class ScheduleType : std::uint8_t {
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kConstant,
  kConstantWithWarmup,
  kInverseSqrt,
  kReduceOnPlateau,
  kCosineWithMinLr,
  kCosineWarmupWithMinLr,
  kWarmupStableDecay,
};
/// Reads one of schedule_names(). The error contains the nearest name.
ScheduleType schedule_from_name(std::string_view name);
/// linear, cosine, cosine_with_restarts, polynomial, constant, constant_with_warmup, inverse_sqrt,
/// reduce_lr_on_plateau, cosine_with_min_lr, cosine_warmup_with_min_lr, warmup_stable_decay.
std::vector<std::string> schedule_names();

/// The arguments of lr_scheduler_kwargs, with Hugging Face's names and defaults. A schedule uses only its own. Brackets
/// contain defaults that depend on the schedule.
struct ScheduleArguments {
  std::optional<double> num_cycles{};  // waves of a cosine [0.5], or restarts [1]
  double lr_end = 1e-7;                // polynomial: the last rate
  double power = 1;
  std::optional<std::int64_t> timescale{};  // inverse_sqrt [the warm-up, or 10,000]
  std::optional<double> min_lr{};           // the least rate
  std::optional<double> min_lr_rate{};      // the same as a fraction of the first rate
  std::optional<double> warmup_lr_rate{};   // cosine_warmup_with_min_lr: the first factor
  std::optional<std::int64_t> num_decay_steps{};
  std::optional<std::int64_t> num_stable_steps{};  // nullopt: all steps that neither warm up nor decay
  std::string warmup_type = "linear";              // of warmup_stable_decay: linear, cosine, 1-sqrt
  std::string decay_type = "cosine";
  double min_lr_ratio = 0;
  std::string mode = "min";  // reduce_lr_on_plateau, as in PyTorch
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";
  std::int64_t cooldown = 0;
  double eps = 1e-8;

  /// Reads a JSON object {"num_cycles": 2} or the list num_cycles=2,power=1. Errors: a name that the schedule does not
  /// use (with those that it uses), a value of another type.
  static ScheduleArguments parse(ScheduleType type, const std::string& text);
};

/// A learning rate as a function of the number of the update.
class Schedule {
 public:
  /// Errors: arguments that are missing or out of range, with their names.
  Schedule(ScheduleType type, double base_rate, std::int64_t warmup_steps, std::int64_t total_steps,
           ScheduleArguments arguments = {});
  /// Returns the learning rate of update number `step` (0 is the first).
  [[nodiscard]] double rate(std::int64_t step) const;
  /// Sets the learning rate of the optimizer for its next update.
  void apply(Optimizer& optimizer) const { optimizer.set_learning_rate(rate(optimizer.step_count())); }

  /// Whether the rate depends on a metric: reduce_lr_on_plateau.
  [[nodiscard]] bool needs_metric() const { return type_ == ScheduleType::kReduceOnPlateau; }
  /// Takes the metric of an evaluation. If it has not improved for more than `patience` evaluations, multiplies the
  /// rate by `factor`. Other schedules than reduce_lr_on_plateau ignore the metric.
  void note_metric(double metric);
  /// The state of reduce_lr_on_plateau by name, to resume a run. Empty for other schedules.
  [[nodiscard]] std::map<std::string, double> state() const;
  /// Sets the state. Values whose names are missing do not change.
  void set_state(const std::map<std::string, double>& state);

 private:
  [[nodiscard]] double factor(std::int64_t step) const;
  [[nodiscard]] double warmup_factor(std::int64_t step) const;
  [[nodiscard]] double stable_decay_factor(std::int64_t step) const;
  [[nodiscard]] double cosine(double progress, double otherwise_cycles) const;
  [[nodiscard]] bool is_better(double metric) const;
  void check() const;

  ScheduleType type_;
  double base_rate_;
  std::int64_t warmup_;
  std::int64_t total_;
  ScheduleArguments arguments_;
  struct Plateau {
    std::optional<double> best{};
    double rate = 0;
    std::int64_t bad = 0;
    std::int64_t cooldown = 0;
  };
  Plateau plateau_;
};

}  // namespace tessera::optim

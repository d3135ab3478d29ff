// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/error.h"

namespace tessera::optim {
namespace {

double at_least_one(std::int64_t n) { return static_cast<double>(std::max<std::int64_t>(n, 1)); }
double raised(double factor, double least) { return std::max(0.0, factor * (1 - least) + least); }

}  // namespace

Schedule::Schedule(ScheduleType type, double base_rate, std::int64_t warmup_steps, std::int64_t total_steps,
                   ScheduleArguments arguments)
    : type_(type), base_rate_(base_rate), warmup_(warmup_steps), total_(total_steps), arguments_(std::move(arguments)) {
  check();
  if (type_ == ScheduleType::kWarmupStableDecay && !arguments_.num_stable_steps)
    arguments_.num_stable_steps = total_ - warmup_ - *arguments_.num_decay_steps;
  if (type_ == ScheduleType::kInverseSqrt && !arguments_.timescale)
    arguments_.timescale = warmup_ > 0 ? warmup_ : 10000;
  if (arguments_.min_lr && base_rate_ > 0) arguments_.min_lr_rate = *arguments_.min_lr / base_rate_;
  plateau_.rate = base_rate_;
}

void Schedule::check() const {
  const bool has_least = type_ == ScheduleType::kCosineWithMinLr || type_ == ScheduleType::kCosineWarmupWithMinLr;
  require(!has_least || arguments_.min_lr.has_value() != arguments_.min_lr_rate.has_value(),
          "this schedule needs either min_lr or min_lr_rate, and not both");
  require(type_ != ScheduleType::kPolynomial || base_rate_ > arguments_.lr_end,
          "the last rate lr_end = {} of the schedule polynomial must be smaller than the first one, {}",
          arguments_.lr_end, base_rate_);
  require(!arguments_.timescale || *arguments_.timescale > 0, "timescale must be positive, got {}",
          arguments_.timescale.value_or(0));
  if (type_ == ScheduleType::kWarmupStableDecay) {
    require(arguments_.num_decay_steps.has_value(), "the schedule warmup_stable_decay needs num_decay_steps");
    for (const std::string& shape : {arguments_.warmup_type, arguments_.decay_type})
      require(shape == "linear" || shape == "cosine" || shape == "1-sqrt",
              "warmup_type and decay_type must be linear, cosine or 1-sqrt, got {}", shape);
  }
  if (type_ == ScheduleType::kReduceOnPlateau) {
    require(arguments_.factor < 1, "the factor of reduce_lr_on_plateau must be below 1, got {}", arguments_.factor);
    require(arguments_.mode == "min" || arguments_.mode == "max", "mode must be min or max, got {}", arguments_.mode);
    require(arguments_.threshold_mode == "rel" || arguments_.threshold_mode == "abs",
            "threshold_mode must be rel or abs, got {}", arguments_.threshold_mode);
  }
}

double Schedule::rate(std::int64_t step) const {
  if (needs_metric()) return plateau_.rate;
  return base_rate_ * factor(step);
}

double Schedule::warmup_factor(std::int64_t step) const {
  const double progress = static_cast<double>(step) / at_least_one(warmup_);
  if (type_ == ScheduleType::kCosineWarmupWithMinLr) {
    if (!arguments_.warmup_lr_rate) return static_cast<double>(step + 1) / at_least_one(warmup_);
    const double first = *arguments_.warmup_lr_rate;
    return first + (1 - first) * static_cast<double>(step) / at_least_one(warmup_ - 1);
  }
  if (type_ != ScheduleType::kWarmupStableDecay) return progress;
  double factor = progress;
  if (arguments_.warmup_type == "cosine") factor = 0.5 * (1 - std::cos(std::numbers::pi * progress));
  if (arguments_.warmup_type == "1-sqrt") factor = 1 - std::sqrt(1 - progress);
  return raised(factor, arguments_.min_lr_ratio);
}

double Schedule::stable_decay_factor(std::int64_t step) const {
  const std::int64_t decayed = step - warmup_ - *arguments_.num_stable_steps;
  if (decayed < 0) return 1;
  if (decayed >= *arguments_.num_decay_steps) return arguments_.min_lr_ratio;
  const double progress = static_cast<double>(decayed) / at_least_one(*arguments_.num_decay_steps);
  double factor = 1 - progress;
  if (arguments_.decay_type == "cosine") factor = cosine(progress, 0.5);
  if (arguments_.decay_type == "1-sqrt") factor = 1 - std::sqrt(progress);
  return raised(factor, arguments_.min_lr_ratio);
}

double Schedule::cosine(double progress, double otherwise_cycles) const {
  const double cycles = arguments_.num_cycles.value_or(otherwise_cycles);
  return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress));
}

double Schedule::factor(std::int64_t step) const {
  if (type_ == ScheduleType::kConstant) return 1;
  if (step < warmup_) return warmup_factor(step);
  const double progress = static_cast<double>(step - warmup_) / at_least_one(total_ - warmup_);
  switch (type_) {
    case ScheduleType::kLinear: return std::max(0.0, 1 - progress);
    case ScheduleType::kCosine: return std::max(0.0, cosine(progress, 0.5));
    case ScheduleType::kCosineWithRestarts: {
      const double cycle = std::fmod(arguments_.num_cycles.value_or(1) * progress, 1.0);
      return progress >= 1 ? 0 : std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * cycle)));
    }
    case ScheduleType::kPolynomial: {
      const double last = arguments_.lr_end / base_rate_;
      return progress >= 1 ? last : (1 - last) * std::pow(1 - progress, arguments_.power) + last;
    }
    case ScheduleType::kInverseSqrt: {
      const auto scale = static_cast<double>(*arguments_.timescale);
      return 1 / std::sqrt((static_cast<double>(step - warmup_) + scale) / scale);
    }
    case ScheduleType::kCosineWithMinLr: return raised(cosine(progress, 0.5), arguments_.min_lr_rate.value_or(0));
    case ScheduleType::kCosineWarmupWithMinLr:
      return raised(cosine(progress + 1 / at_least_one(total_ - warmup_), 0.5), arguments_.min_lr_rate.value_or(0));
    case ScheduleType::kWarmupStableDecay: return stable_decay_factor(step);
    default: return 1;
  }
}

// ---- reduce_lr_on_plateau ---------------------------------------------------------------------------------------------

bool Schedule::is_better(double metric) const {
  if (!plateau_.best) return !std::isnan(metric);
  const bool is_min = arguments_.mode == "min";
  const double margin = is_min ? -arguments_.threshold : arguments_.threshold;
  // A product, because the difference of an infinity and a part of it is NaN.
  const double bound = arguments_.threshold_mode == "rel" ? *plateau_.best * (1 + margin) : *plateau_.best + margin;
  return is_min ? metric < bound : metric > bound;
}

void Schedule::note_metric(double metric) {
  if (!needs_metric()) return;
  if (is_better(metric)) {
    plateau_.best = metric;
    plateau_.bad = 0;
  } else {
    ++plateau_.bad;
  }
  if (plateau_.cooldown > 0) {
    --plateau_.cooldown;
    plateau_.bad = 0;
  }
  if (plateau_.bad <= arguments_.patience) return;
  const double reduced = std::max(plateau_.rate * arguments_.factor, arguments_.min_lr.value_or(0));
  if (plateau_.rate - reduced > arguments_.eps) plateau_.rate = reduced;
  plateau_.cooldown = arguments_.cooldown;
  plateau_.bad = 0;
}

std::map<std::string, double> Schedule::state() const {
  if (!needs_metric()) return {};
  std::map<std::string, double> out{{"rate", plateau_.rate},
                                    {"num_bad_epochs", static_cast<double>(plateau_.bad)},
                                    {"cooldown_counter", static_cast<double>(plateau_.cooldown)}};
  if (plateau_.best) out["best"] = *plateau_.best;
  return out;
}

void Schedule::set_state(const std::map<std::string, double>& state) {
  for (const auto& [name, value] : state) {
    if (name == "rate") plateau_.rate = value;
    if (name == "num_bad_epochs") plateau_.bad = static_cast<std::int64_t>(value);
    if (name == "cooldown_counter") plateau_.cooldown = static_cast<std::int64_t>(value);
    if (name == "best") plateau_.best = value;
  }
}

}  // namespace tessera::optim

// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/error.h"

namespace tessera::optim {

ScheduleType schedule_from_name(std::string_view name) {
  if (name == "linear") return ScheduleType::kLinear;
  if (name == "cosine") return ScheduleType::kCosine;
  if (name == "constant") return ScheduleType::kConstant;
  if (name == "constant_with_warmup") return ScheduleType::kConstantWithWarmup;
  fail("unknown schedule {}{}", name, suggest_name(name, {"linear", "cosine", "constant", "constant_with_warmup"}));
}

double Schedule::rate(std::int64_t step) const {
  const auto real = [](std::int64_t n) { return static_cast<double>(std::max<std::int64_t>(n, 1)); };
  if (type_ == ScheduleType::kConstant) return base_rate_;
  if (step < warmup_) return base_rate_ * static_cast<double>(step) / real(warmup_);
  if (type_ == ScheduleType::kConstantWithWarmup) return base_rate_;
  const double progress = static_cast<double>(step - warmup_) / real(total_ - warmup_);
  if (type_ == ScheduleType::kLinear) return base_rate_ * std::max(0.0, 1 - progress);
  return base_rate_ * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

}  // namespace tessera::optim

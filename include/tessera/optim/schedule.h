// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules of Hugging Face's Trainer.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

enum class ScheduleType : std::uint8_t { kLinear, kCosine, kConstant, kConstantWithWarmup };
/// Reads linear, cosine, constant or constant_with_warmup. Error with the nearest name.
ScheduleType schedule_from_name(std::string_view name);

class Schedule {
 public:
  Schedule(ScheduleType type, double base_rate, std::int64_t warmup_steps, std::int64_t total_steps)
      : type_(type), base_rate_(base_rate), warmup_(warmup_steps), total_(total_steps) {}
  /// Returns the learning rate of update number `step` (0 is the first).
  [[nodiscard]] double rate(std::int64_t step) const;
  void apply(Optimizer& optimizer) const { optimizer.set_learning_rate(rate(optimizer.step_count())); }

 private:
  ScheduleType type_;
  double base_rate_;
  std::int64_t warmup_;
  std::int64_t total_;
};

}  // namespace tessera::optim

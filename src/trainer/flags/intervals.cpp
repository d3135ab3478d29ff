// SPDX-License-Identifier: Apache-2.0
#include "flags/intervals.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"

namespace tessera::trainer {
namespace {

std::int64_t updates_of(double steps, std::int64_t total_steps) {
  if (steps >= 1) return static_cast<std::int64_t>(steps);
  constexpr double kRounding = 1e-9;  // 0.07 * 100 is above 7
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(steps * static_cast<double>(total_steps) - kRounding)));
}

}  // namespace

Intervals Intervals::of(const TrainingArguments& arguments, std::int64_t total_steps) {
  const Intervals out{.log = updates_of(arguments.logging_steps, total_steps),
                      .evaluate = updates_of(arguments.evaluation_interval(), total_steps),
                      .save = updates_of(arguments.save_steps, total_steps)};
  const bool evaluates_before_save = !arguments.load_best_model_at_end || arguments.save_strategy != "steps" ||
                                     arguments.eval_strategy != "steps" || out.save % out.evaluate == 0;
  require(evaluates_before_save,
          "--load_best_model_at_end needs --save_steps to be a multiple of --eval_steps; in this run of {} updates "
          "they are {} and {}",
          total_steps, out.save, out.evaluate);
  return out;
}

}  // namespace tessera::trainer

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "named_arguments.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/optim/schedule.h"

namespace tessera::optim {
namespace {

struct ScheduleRow {
  ScheduleType type;
  std::string name;
  std::vector<std::string> arguments;
};

const std::vector<ScheduleRow>& schedule_rows() {
  static const std::vector<ScheduleRow> kRows{
      {ScheduleType::kLinear, "linear", {}},
      {ScheduleType::kCosine, "cosine", {"num_cycles"}},
      {ScheduleType::kCosineWithRestarts, "cosine_with_restarts", {"num_cycles"}},
      {ScheduleType::kPolynomial, "polynomial", {"lr_end", "power"}},
      {ScheduleType::kConstant, "constant", {}},
      {ScheduleType::kConstantWithWarmup, "constant_with_warmup", {}},
      {ScheduleType::kInverseSqrt, "inverse_sqrt", {"timescale"}},
      {ScheduleType::kReduceOnPlateau,
       "reduce_lr_on_plateau",
       {"mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"}},
      {ScheduleType::kCosineWithMinLr, "cosine_with_min_lr", {"num_cycles", "min_lr", "min_lr_rate"}},
      {ScheduleType::kCosineWarmupWithMinLr,
       "cosine_warmup_with_min_lr",
       {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"}},
      {ScheduleType::kWarmupStableDecay,
       "warmup_stable_decay",
       {"num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio", "num_cycles"}},
  };
  return kRows;
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> out;
  for (const auto& row : schedule_rows()) out.push_back(row.name);
  return out;
}

ScheduleType schedule_from_name(std::string_view name) {
  for (const auto& row : schedule_rows())
    if (row.name == name) return row.type;
  fail("unknown schedule {}{}", name, suggest_name(std::string(name), schedule_names()));
}

ScheduleArguments ScheduleArguments::parse(ScheduleType type, const std::string& text) {
  const JsonObject json = named_arguments(text, "lr_scheduler_kwargs");
  const auto row = std::ranges::find(schedule_rows(), type, &ScheduleRow::type);
  require_known(json, row->arguments, "the schedule " + row->name);
  ScheduleArguments out;
  json.read("num_cycles", out.num_cycles);
  json.read("lr_end", out.lr_end);
  json.read("power", out.power);
  json.read("timescale", out.timescale);
  json.read("min_lr", out.min_lr);
  json.read("min_lr_rate", out.min_lr_rate);
  json.read("warmup_lr_rate", out.warmup_lr_rate);
  json.read("num_decay_steps", out.num_decay_steps);
  json.read("num_stable_steps", out.num_stable_steps);
  json.read("warmup_type", out.warmup_type);
  json.read("decay_type", out.decay_type);
  json.read("min_lr_ratio", out.min_lr_ratio);
  json.read("mode", out.mode);
  json.read("factor", out.factor);
  json.read("patience", out.patience);
  json.read("threshold", out.threshold);
  json.read("threshold_mode", out.threshold_mode);
  json.read("cooldown", out.cooldown);
  json.read("eps", out.eps);
  return out;
}

}  // namespace tessera::optim

// SPDX-License-Identifier: Apache-2.0
#include "run/best_model.h"

#include <fmt/format.h>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::trainer {

double BestModel::metric_of(const Metrics& result) const {
  const std::string& name = arguments_.metric_for_best_model;
  const std::optional<double> metric = result.find(name);
  require(metric.has_value(), "--metric_for_best_model {}: the evaluation has loss{}", name, [&] {
    std::string known;
    for (const auto& [other, value] : result.others) known += ", " + other;
    return known;
  });
  return *metric;
}

void BestModel::note(const Metrics& result) {
  finish();
  const double metric = metric_of(result);
  const bool wants_more = arguments_.greater_is_better || greater_is_better(arguments_.metric_for_best_model);
  if (state_.best_metric && !(wants_more ? metric > *state_.best_metric : metric < *state_.best_metric)) return;
  noted_step_ = state_.global_step;
  metric_before_ = state_.best_metric;
  checkpoint_before_ = state_.best_model_checkpoint;
  state_.best_metric = metric;
  state_.best_model_checkpoint = saver_.folder_of(state_.global_step);
}

void BestModel::finish() {
  saver_.finish();
  if (noted_step_ >= 0 && saver_.failed_step() == noted_step_) {
    state_.best_metric = metric_before_;
    state_.best_model_checkpoint = checkpoint_before_;
  }
  noted_step_ = -1;
}

std::string BestModel::load(TrainingSetup& setup) const {
  const std::string& folder = state_.best_model_checkpoint;
  if (folder.empty()) return "";
  if (const std::string reason = damage_of(folder); !reason.empty()) {
    if (RankContext::current().rank() == 0)
      log_warning("--load_best_model_at_end: {}; the model of the last update is kept", reason);
    return "";
  }
  load_checkpoint(folder, {{"model", setup.network->state_dict()}});
  const std::string& name = arguments_.metric_for_best_model;
  return fmt::format("best model {}: {} {:.4f}", folder, name.empty() ? "loss" : name, *state_.best_metric);
}

}  // namespace tessera::trainer

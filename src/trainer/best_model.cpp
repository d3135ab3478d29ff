// SPDX-License-Identifier: Apache-2.0
#include "best_model.h"

#include <fmt/format.h>

#include <cmath>

#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::trainer {

double BestModel::metric_of(const Evaluation& result) const {
  const std::string& name = arguments_.metric_for_best_model;
  if (name.ends_with("perplexity")) return std::exp(result.loss);
  return name.ends_with("bits_per_byte") ? result.bits_per_byte : result.loss;
}

void BestModel::note(const Evaluation& result) {
  finish();
  const double metric = metric_of(result);
  const bool is_better = !state_.best_metric ||
                         (arguments_.greater_is_better ? metric > *state_.best_metric : metric < *state_.best_metric);
  if (!is_better) return;
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

std::string BestModel::load(ClmModel& setup) const {
  const std::string& folder = state_.best_model_checkpoint;
  if (folder.empty()) return "";
  if (const std::string reason = damage_of(folder); !reason.empty()) {
    if (RankContext::current().rank() == 0)
      log_warning("--load_best_model_at_end: {}; the model of the last update is kept", reason);
    return "";
  }
  load_checkpoint(folder, {{"model", setup.model->state_dict()}});
  const std::string& name = arguments_.metric_for_best_model;
  return fmt::format("best model {}: {} {:.4f}", folder, name.empty() ? "loss" : name, *state_.best_metric);
}

}  // namespace tessera::trainer

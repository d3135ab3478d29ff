// SPDX-License-Identifier: Apache-2.0
#include "run/best_model.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/json_object.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::trainer {

bool BestModel::is_better(const Metrics& result) const {
  const double metric = chosen_metric(arguments_, result);
  if (std::isnan(metric)) return false;
  if (!state_.best_metric) return true;
  return wants_greater(arguments_) ? metric > *state_.best_metric : metric < *state_.best_metric;
}

void BestModel::note(const Metrics& result) {
  finish();
  if (!is_better(result)) return;
  noted_step_ = state_.global_step;
  metric_before_ = state_.best_metric;
  checkpoint_before_ = state_.best_model_checkpoint;
  state_.best_metric = chosen_metric(arguments_, result);
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

void BestModel::find_beside(const std::string& checkpoint) {
  namespace fs = std::filesystem;
  std::string& best = state_.best_model_checkpoint;
  if (best.empty()) return;
  const fs::path folder = fs::path(checkpoint + "/").parent_path().parent_path();
  const std::string beside = (folder / fs::path(best).filename()).string();
  if (is_best_of_run(beside)) best = beside;
}

// A checkpoint that was the best one when it was saved says so. That of another run has another metric.
bool BestModel::is_best_of_run(const std::string& checkpoint) const {
  try {
    const JsonObject json = JsonObject::from_file(checkpoint + "/trainer_state.json");
    std::string best;
    double metric = 0;
    json.read("best_model_checkpoint", best);
    json.read("best_metric", metric);
    const auto name = [](const std::string& path) { return std::filesystem::path(path).filename(); };
    return name(best) == name(checkpoint) && metric == state_.best_metric;
  } catch (const Error&) {
    return false;
  }
}

std::string BestModel::load(TrainingSetup& setup) const {
  const std::string& folder = state_.best_model_checkpoint;
  const std::string& name = arguments_.metric_for_best_model;
  const std::string metric = name.empty() ? "loss" : name;
  if (folder.empty()) {
    if (RankContext::current().rank() == 0)
      log_warning(
          "--load_best_model_at_end: there is no complete checkpoint whose {} is a number; the model of the last "
          "update is kept",
          metric);
    return "";
  }
  if (const std::string reason = damage_of(folder); !reason.empty()) {
    if (RankContext::current().rank() == 0)
      log_warning("--load_best_model_at_end: {}; the model of the last update is kept", reason);
    return "";
  }
  load_checkpoint(folder, {{"model", setup.network->state_dict()}});
  return fmt::format("best model {}: {} {:.4f}", folder, metric, *state_.best_metric);
}

}  // namespace tessera::trainer

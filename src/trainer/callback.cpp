// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/callback.h"

#include <cmath>

#include "tessera/base/error.h"

namespace tessera::trainer {

EarlyStoppingCallback::EarlyStoppingCallback(std::int64_t patience, double threshold)
    : patience_(patience), threshold_(threshold) {
  require(patience >= 1, "EarlyStoppingCallback: the patience must be at least 1, got {}", patience);
  require(threshold >= 0, "EarlyStoppingCallback: the threshold must not be negative, got {}", threshold);
}

void EarlyStoppingCallback::on_evaluate(const TrainerEvent& event) {
  const double metric = chosen_metric(event.arguments, *event.metrics);
  const double sign = wants_greater(event.arguments) ? 1 : -1;
  const bool is_known = !std::isnan(metric);  // as the correlation of equal scores is not
  const bool is_progress = is_known && (!best_ || sign * (metric - *best_) > threshold_);
  if (is_known && (!best_ || sign * (metric - *best_) > 0)) best_ = metric;
  without_progress_ = is_progress ? 0 : without_progress_ + 1;
  if (without_progress_ >= patience_) event.control.should_training_stop = true;
}

JsonObject EarlyStoppingCallback::state() const {
  JsonObject out;
  out.set("early_stopping_patience", patience_);
  out.set("early_stopping_threshold", threshold_);
  out.set("early_stopping_patience_counter", without_progress_);
  if (best_) out.set("best_metric", *best_);
  return out;
}

void EarlyStoppingCallback::set_state(const JsonObject& state) {
  state.read("early_stopping_patience_counter", without_progress_);
  double best = 0;
  if (state.read("best_metric", best) && !std::isnan(best)) best_ = best;
}

}  // namespace tessera::trainer

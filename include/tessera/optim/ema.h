// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct EmaOptions {
  double decay = 0.999;
  bool use_num_updates =
      false;  // decay is at most (1 + n) / (10 + n) after n updates, so that early values fade faster
};
/// An exponential moving average of parameters, as torch.optim.swa_utils.get_ema_multi_avg_fn computes it: the first
/// update copies the parameters, and each later one gives average = decay average + (1 - decay) parameter. Averages are
/// in f32 at least. They have the shardings of the gradients.
///
///   ExponentialMovingAverage ema(model.parameters(), {.decay = 0.999});
///   while (…) { …; optimizer.step(); ema.update(); mark_step(); }
///   ema.swap();  evaluate();  ema.swap();
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(std::vector<Tensor> parameters, EmaOptions options = {});
  /// Traces one update. Call it after optimizer.step().
  void update(std::source_location where = std::source_location::current());
  /// Exchanges the values of the parameters and of the averages. Errors: there was no update yet; a parameter has a
  /// 16-bit type, because its average would lose bits.
  void swap(std::source_location where = std::source_location::current());
  [[nodiscard]] std::int64_t update_count() const { return *updates_; }
  /// The averages as `ema.NAME`, and the number of updates, `ema.updates`. A load into the StateDict also sets
  /// update_count().
  [[nodiscard]] StateDict state_dict() const;
  LoadStateResult load_state_dict(const StateDict& source, const LoadStateOptions& options = {});

 private:
  [[nodiscard]] double decay() const;
  std::vector<Tensor> parameters_;
  EmaOptions options_;
  StateQuantity averages_;
  std::shared_ptr<std::int64_t> updates_ = std::make_shared<std::int64_t>(0);  // also of state dicts
};

}  // namespace tessera::optim

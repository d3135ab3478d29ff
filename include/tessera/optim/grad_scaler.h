// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  bool enabled = true;
};
/// Dynamic loss scaling for f16, as torch.amp.GradScaler. The loss, and therefore all gradients, are multiplied by a
/// scale, because f16 would round small gradients to 0. If a gradient is not finite, the step does not change
/// parameters and state, and the scale decreases. After growth_interval steps without such a step, the scale increases.
/// Unlike in PyTorch, the traced program decides whether a step takes effect, so the host does not wait for a value.
///
///   scaler.scale(loss).backward();
///   scaler.unscale(optimizer);                    before clipping; otherwise step() does it
///   optim::clip_grad_norm(parameters, 1.0);
///   scaler.step(optimizer);
///   scaler.update();
///   mark_step();
class GradScaler {
 public:
  /// Errors: init_scale or growth_interval is not positive; growth_factor <= 1; backoff_factor is not in (0, 1).
  explicit GradScaler(GradScalerOptions options = {});
  /// Returns loss * scale, in f32 at least. If `enabled` is false, returns the loss.
  [[nodiscard]] Tensor scale(const Tensor& loss) const;
  /// Divides the gradients by the scale. Error if it is called twice for one step.
  void unscale(Optimizer& optimizer);
  /// Calls optimizer.step(), which takes effect only if all gradients are finite.
  void step(Optimizer& optimizer, std::source_location where = std::source_location::current());
  /// Ends the step and updates the scale. Error if step() was not called.
  void update();

  /// The current scale. Waits for the step that computes it.
  [[nodiscard]] double get_scale() const;
  /// The number of steps so far that had no effect. Waits for the steps.
  [[nodiscard]] std::int64_t skipped_steps() const;
  [[nodiscard]] bool is_enabled() const { return options_.enabled; }
  /// `scale`, `growth_tracker` and `skipped`, with the prefix `grad_scaler.`.
  [[nodiscard]] StateDict state_dict() const;
  LoadStateResult load_state_dict(const StateDict& source, const LoadStateOptions& options = {});

 private:
  GradScalerOptions options_;
  Tensor scale_;    // f32
  Tensor tracker_;  // s32: steps since the scale changed
  Tensor skipped_;  // s32
  Tensor finite_;   // of the current step, over all optimizers
  std::vector<const Optimizer*> unscaled_;
};

}  // namespace tessera::optim

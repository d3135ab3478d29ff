// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct AdafactorOptions {
  std::optional<double> learning_rate{};  // nullopt with relative_step
  double epsilon1 = 1e-30;                // added to squared gradients
  double epsilon2 = 1e-3;                 // the least root mean square of a parameter, with scale_parameter
  double clip_threshold = 1;              // the largest root mean square of an update
  double decay_rate = -0.8;               // the second moment decays by 1 - step^decay_rate
  std::optional<double> beta1{};          // decay of the first moment; nullopt: there is none
  double weight_decay = 0;
  bool scale_parameter = true;  // multiplies the rate by the root mean square of the parameter
  bool relative_step = true;    // the rate is min(1e-2, 1 / sqrt(step))
  bool warmup_init = false;     // the rate is min(1e-6 step, 1 / sqrt(step))
  StateFormat state_format = StateFormat::kFull;
};
/// Adafactor (Shazeer and Stern, 2018) with the arguments and the order of operations of transformers.Adafactor. The
/// second moment of a matrix is the product of a factor for each row and a factor for each column of the global matrix,
/// for every sharding. Vectors have a second moment for each element. Errors: both learning_rate and relative_step are
/// given, or neither; warmup_init without relative_step.
class Adafactor : public Optimizer {
 public:
  Adafactor(std::vector<Tensor> parameters, const AdafactorOptions& options);
  Adafactor(std::vector<ParameterGroup> groups, const AdafactorOptions& options);
  /// With relative_step, the rate before scale_parameter multiplies it.
  [[nodiscard]] std::optional<double> computed_rate(std::int64_t step) const override;

 protected:
  Tensor update(const Update& update) override;

 private:
  Tensor step_size(const Update& update);
  Tensor normalized_gradient(const Update& update);
  AdafactorOptions options_;
  StateQuantity* first_ = nullptr;
  StateQuantity* rows_ = nullptr;
  StateQuantity* columns_ = nullptr;
  StateQuantity* second_ = nullptr;  // of parameters that are not matrices
};

}  // namespace tessera::optim

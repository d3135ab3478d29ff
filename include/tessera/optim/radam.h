// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct RAdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // as in AdamW; false: an L2 penalty
  StateFormat state_format = StateFormat::kFull;
  bool maximize = false;
};
/// RAdam (Liu et al., 2020) with PyTorch's order of operations: Adam whose step size is rectified by the variance of
/// the second moment. In the first steps, where this variance is infinite, the update is the corrected first moment
/// alone.
class RAdam : public Optimizer {
 public:
  RAdam(std::vector<Tensor> parameters, const RAdamOptions& options);
  RAdam(std::vector<ParameterGroup> groups, const RAdamOptions& options);

 protected:
  Tensor update(const Update& update) override;

 private:
  RAdamOptions options_;
  StateQuantity* first_ = nullptr;
  StateQuantity* second_ = nullptr;
};

}  // namespace tessera::optim

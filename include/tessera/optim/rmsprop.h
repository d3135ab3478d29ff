// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct RMSpropOptions {
  double learning_rate = 1e-2;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  StateFormat state_format = StateFormat::kFull;
  bool maximize = false;
};
/// RMSprop (Hinton, 2012) with PyTorch's order of operations: v = alpha v + (1 - alpha) g^2; p -= lr g / (sqrt(v) +
/// epsilon). If `centered`, v - m^2 replaces v under the root, where m is the average of the gradients. With a
/// momentum, p -= lr b for b = momentum b + g / (…). Weight decay is an L2 penalty.
class RMSprop : public Optimizer {
 public:
  RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& options);
  RMSprop(std::vector<ParameterGroup> groups, const RMSpropOptions& options);

 protected:
  Tensor update(const Update& update) override;

 private:
  RMSpropOptions options_;
  StateQuantity* squares_ = nullptr;
  StateQuantity* buffers_ = nullptr;   // with a momentum
  StateQuantity* averages_ = nullptr;  // of the gradients, if centered
};

}  // namespace tessera::optim

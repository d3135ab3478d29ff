// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct AdadeltaOptions {
  double learning_rate = 1;
  double rho = 0.9;
  double epsilon = 1e-6;
  double weight_decay = 0;
  StateFormat state_format = StateFormat::kFull;
  bool maximize = false;
};
/// Adadelta (Zeiler, 2012) with PyTorch's order of operations: v = rho v + (1 - rho) g^2; d = sqrt(u + epsilon) /
/// sqrt(v + epsilon) g; u = rho u + (1 - rho) d^2; p -= lr d. Weight decay is an L2 penalty.
class Adadelta : public Optimizer {
 public:
  Adadelta(std::vector<Tensor> parameters, const AdadeltaOptions& options);
  Adadelta(std::vector<ParameterGroup> groups, const AdadeltaOptions& options);

 protected:
  Tensor update(const Update& update) override;

 private:
  AdadeltaOptions options_;
  StateQuantity* squares_ = nullptr;
  StateQuantity* changes_ = nullptr;
};

}  // namespace tessera::optim

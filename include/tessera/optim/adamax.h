// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct AdamaxOptions {
  double learning_rate = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  StateFormat state_format = StateFormat::kFull;
  bool maximize = false;
};
/// Adamax (Kingma and Ba, 2015) with PyTorch's order of operations: m = beta1 m + (1 - beta1) g; u = max(beta2 u, |g| +
/// epsilon); p -= lr / (1 - beta1^t) m / u. Weight decay is an L2 penalty.
class Adamax : public Optimizer {
 public:
  Adamax(std::vector<Tensor> parameters, const AdamaxOptions& options);
  Adamax(std::vector<ParameterGroup> groups, const AdamaxOptions& options);

 protected:
  Tensor update(const Update& update) override;

 private:
  AdamaxOptions options_;
  StateQuantity* first_ = nullptr;
  StateQuantity* largest_ = nullptr;
};

}  // namespace tessera::optim

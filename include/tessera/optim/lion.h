// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct LionOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  StateFormat state_format = StateFormat::kFull;
};
/// Lion (Chen et al., 2023): p = (1 - lr decay) p - lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g.
class Lion : public Optimizer {
 public:
  Lion(std::vector<Tensor> parameters, const LionOptions& options);
  Lion(std::vector<ParameterGroup> groups, const LionOptions& options);

 protected:
  Tensor update(const Update& update) override;

 private:
  LionOptions options_;
  StateQuantity* momentum_ = nullptr;
};

}  // namespace tessera::optim

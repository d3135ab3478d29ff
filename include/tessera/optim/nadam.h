// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct NAdamOptions {
  double learning_rate = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  // as in AdamW; false: an L2 penalty
  StateFormat state_format = StateFormat::kFull;
  bool maximize = false;
};
/// NAdam (Dozat, 2016) with PyTorch's order of operations: Adam with Nesterov's momentum, where the momentum of step t
/// is beta1 (1 - 0.96^(t momentum_decay) / 2).
class NAdam : public Optimizer {
 public:
  NAdam(std::vector<Tensor> parameters, const NAdamOptions& options);
  NAdam(std::vector<ParameterGroup> groups, const NAdamOptions& options);

 protected:
  Tensor update(const Update& update) override;

 private:
  NAdamOptions options_;
  StateQuantity* products_ = nullptr;  // of the momenta of all steps
  StateQuantity* first_ = nullptr;
  StateQuantity* second_ = nullptr;
};

}  // namespace tessera::optim

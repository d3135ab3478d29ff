// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

struct AdagradOptions {
  double learning_rate = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double epsilon = 1e-10;
  StateFormat state_format = StateFormat::kFull;
  bool maximize = false;
};
/// Adagrad (Duchi et al., 2011) with PyTorch's order of operations: s = s + g^2; p -= lr / (1 + (t - 1) lr_decay) g /
/// (sqrt(s) + epsilon), where s starts with initial_accumulator_value. Weight decay is an L2 penalty.
class Adagrad : public Optimizer {
 public:
  Adagrad(std::vector<Tensor> parameters, const AdagradOptions& options);
  Adagrad(std::vector<ParameterGroup> groups, const AdagradOptions& options);

 protected:
  Tensor update(const Update& update) override;

 private:
  AdagradOptions options_;
  StateQuantity* sums_ = nullptr;
};

}  // namespace tessera::optim

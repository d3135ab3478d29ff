// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/adadelta.h"

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {

Adadelta::Adadelta(std::vector<Tensor> parameters, const AdadeltaOptions& options)
    : Adadelta(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

Adadelta::Adadelta(std::vector<ParameterGroup> groups, const AdadeltaOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  require(options.rho >= 0 && options.rho <= 1, "rho must be in [0, 1], got {}", options.rho);
  require(options.epsilon >= 0, "epsilon must not be negative, got {}", options.epsilon);
  set_maximize(options.maximize);
  squares_ = &make_state("square_avg", {.format = options.state_format, .is_signed = false});
  changes_ = &make_state("acc_delta", {.format = options.state_format, .is_signed = false});
}

Tensor Adadelta::update(const Update& update) {
  const Tensor gradient = penalized_gradient(update);
  const double rho = options_.rho;
  const Tensor v = squares_->read(update.index) * rho + gradient * gradient * (1 - rho);
  const Tensor u = changes_->read(update.index);
  const Tensor change = sqrt(u + options_.epsilon) / sqrt(v + options_.epsilon) * gradient;
  write(*squares_, update, v);
  write(*changes_, update, u * rho + change * change * (1 - rho));
  return update.value - change * rate(update);
}

}  // namespace tessera::optim

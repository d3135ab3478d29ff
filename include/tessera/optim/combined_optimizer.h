// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

/// Several optimizers as one, such as Muon for matrices and AdamW for other parameters. Its step() calls that of each
/// optimizer. Its learning rate is that of the first optimizer; set_learning_rate() changes the rates of the others by
/// the same factor.
class CombinedOptimizer : public Optimizer {
 public:
  /// Error without optimizers.
  explicit CombinedOptimizer(std::vector<std::unique_ptr<Optimizer>> optimizers);
  void set_learning_rate(double value) override;
  void set_step_count(std::int64_t steps) override;
  [[nodiscard]] std::vector<Tensor> parameters() const override;
  [[nodiscard]] std::vector<NamedState> named_state() const override;
  [[nodiscard]] std::string note() const override;
  /// `CombinedOptimizer of Muon and AdamW`.
  [[nodiscard]] std::string class_name() const override;
  void set_condition(const Tensor& applies, const Tensor& skipped) override;
  [[nodiscard]] const std::vector<std::unique_ptr<Optimizer>>& optimizers() const { return optimizers_; }

 protected:
  Tensor update(const Update& update) override;
  void update_all(std::source_location where) override;

 private:
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::vector<double> initial_rates_;
};

}  // namespace tessera::optim

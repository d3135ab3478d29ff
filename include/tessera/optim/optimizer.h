// SPDX-License-Identifier: Apache-2.0
// Optimizers. State is in f32 at least and exists from construction; learning rate and step are inputs of the graph, so changing
// them compiles nothing. State lies as its parameter lies and, over the axes that the batch's rows lie over, in parts: there
// gradients are reduce-scattered, every device updates its part, and the new weights are gathered (ZeRO stage 2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::optim {

/// Parameters that share options.
struct ParameterGroup {
  std::vector<Tensor> parameters;
  double weight_decay = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  /// Records the update of every parameter that has a gradient.
  void step(std::source_location where = std::source_location::current());
  void zero_grad();
  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double value) { learning_rate_ = value; }
  [[nodiscard]] std::int64_t step_count() const { return steps_; }
  void set_step_count(std::int64_t steps) { steps_ = steps; }
  [[nodiscard]] std::vector<Tensor> parameters() const;

  /// State by name: `exp_avg.NAME` …, in order of the parameters, as many for each.
  struct NamedState {
    std::string name;
    Tensor tensor;
  };
  [[nodiscard]] virtual std::vector<NamedState> named_state() const = 0;

 protected:
  Optimizer(std::vector<ParameterGroup> groups, double learning_rate);
  /// Inputs of this step's update, made once a step.
  virtual void begin_step() {}
  /// Updates parameter `index` (over all groups).
  virtual void update(int index, Tensor parameter, const Tensor& gradient, double weight_decay) = 0;
  /// A scalar input of the graph in `dtype`; asked for at each step.
  [[nodiscard]] static Tensor input(DType dtype, const std::function<double()>& value, const std::string& name);
  /// The element type of state: f64 for f64 parameters, else f32.
  [[nodiscard]] static DType state_dtype(const Tensor& parameter);
  std::vector<Tensor> make_state(const std::string& prefix) const;

  std::vector<ParameterGroup> groups_;
  double learning_rate_;
  std::int64_t steps_ = 0;

 private:
  /// Lays state that nobody has used yet as the first step's gradients lie.
  void place_state();
  bool is_placed_ = false;
};

struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
/// PyTorch's SGD: buf = momentum buf + (g + decay p); p -= lr buf.
class SGD : public Optimizer {
 public:
  SGD(std::vector<Tensor> parameters, const SgdOptions& options);
  SGD(std::vector<ParameterGroup> groups, const SgdOptions& options);
  [[nodiscard]] std::vector<NamedState> named_state() const override;

 protected:
  void begin_step() override;
  void update(int index, Tensor parameter, const Tensor& gradient, double weight_decay) override;

 private:
  SgdOptions options_;
  Tensor rate(DType dtype);
  std::vector<Tensor> buffers_;
  std::vector<std::pair<DType, Tensor>> rates_;
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};
/// Decoupled weight decay, PyTorch's order of operations.
class AdamW : public Optimizer {
 public:
  AdamW(std::vector<Tensor> parameters, const AdamWOptions& options);
  AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options);
  [[nodiscard]] std::vector<NamedState> named_state() const override;

 protected:
  void begin_step() override;
  void update(int index, Tensor parameter, const Tensor& gradient, double weight_decay) override;

 private:
  struct StepInputs {
    Tensor rate;            // learning rate
    Tensor corrected_rate;  // lr / (1 - beta1^t)
    Tensor second_factor;   // 1 / sqrt(1 - beta2^t)
  };
  StepInputs& inputs(DType dtype);
  AdamWOptions options_;
  std::vector<Tensor> first_, second_;
  std::vector<std::pair<DType, StepInputs>> inputs_;
};

/// The 2-norm of all gradients together.
Tensor global_norm(const std::vector<Tensor>& parameters);
/// Scales all gradients by max_norm / (norm + 1e-6) where that is below 1; returns the norm before.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace tessera::optim

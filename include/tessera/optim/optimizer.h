// SPDX-License-Identifier: Apache-2.0
// Optimizers. State is in f32 at least and exists from construction. Learning rate and step are inputs of the traced
// program, so changing them causes no compilation. State has the sharding of its parameter and is also sharded over
// the axes that shard the rows of the batch: gradients are reduce-scattered over these axes, every device updates its
// part, and the new parameters are gathered (ZeRO stage 2, Rajbhandari et al., 2020).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/frontend/tensor/state_dict.h"
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
  /// Traces the update of every parameter that has a gradient.
  void step(std::source_location where = std::source_location::current());
  void zero_grad();
  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double value) { learning_rate_ = value; }
  [[nodiscard]] std::int64_t step_count() const { return steps_; }
  void set_step_count(std::int64_t steps) { steps_ = steps; }
  [[nodiscard]] std::vector<Tensor> parameters() const;

  /// State by name: `exp_avg.NAME` …, in the order of the parameters, with equally many for each.
  struct NamedState {
    std::string name;
    Tensor tensor;
  };
  [[nodiscard]] virtual std::vector<NamedState> named_state() const = 0;
  /// named_state() and the number of steps so far, `step`. Names contain the name of the parameter, so state belongs to
  /// the parameter of this name, in any order of parameters and groups.
  [[nodiscard]] StateDict state_dict() const;
  /// Gives the state the values of another state dict. Errors as Module::load_state_dict.
  LoadStateResult load_state_dict(const StateDict& source, const LoadStateOptions& options = {});

 protected:
  Optimizer(std::vector<ParameterGroup> groups, double learning_rate);
  /// Creates the inputs of the update, once in each step.
  virtual void begin_step() {}
  /// Traces the update of parameter number `index` (over all groups).
  virtual void update(int index, Tensor parameter, const Tensor& gradient, double weight_decay) = 0;
  /// A scalar input of the program in `dtype`. `value` is called at each step.
  [[nodiscard]] static Tensor input(DType dtype, const std::function<double()>& value, const std::string& name);
  /// The element type of state: f64 for f64 parameters, else f32.
  [[nodiscard]] static DType state_dtype(const Tensor& parameter);
  std::vector<Tensor> make_state(const std::string& prefix) const;

  std::vector<ParameterGroup> groups_;
  double learning_rate_;
  std::int64_t steps_ = 0;

 private:
  /// Gives unused state the sharding of the first step's gradients.
  void place_state();
  bool is_placed_ = false;
};

struct OptimizerStepOptions {
  bool barrier = false;  // end the step too, as mark_step() does
};
/// The name that PyTorch/XLA programs use for optimizer.step(). A gradient is that of the complete batch: if the rows of
/// the batch are sharded, the partitioner inserts the all-reduce. With a loss that is a mean over the batch, gradients are
/// thus averaged over the ranks, and parameters stay equal on all of them. Error for parameters that FSDP shards, as in
/// PyTorch/XLA: call optimizer.step().
void optimizer_step(Optimizer& optimizer, OptimizerStepOptions options = {},
                    std::source_location where = std::source_location::current());

struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
/// SGD as in PyTorch: buf = momentum buf + (g + decay p); p -= lr buf.
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
/// AdamW (Loshchilov and Hutter, 2019) with PyTorch's order of operations.
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

/// Returns the 2-norm of all gradients together.
Tensor global_norm(const std::vector<Tensor>& parameters);
/// Scales all gradients by max_norm / (norm + 1e-6) if that is below 1. Returns the norm before scaling.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace tessera::optim

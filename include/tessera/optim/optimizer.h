// SPDX-License-Identifier: Apache-2.0
// Optimizers. An update is a function of the global tensors, so its result does not depend on their shardings. State is
// created with the optimizer, in f32 at least unless state_format is a smaller format. The learning rate and the step
// count are inputs of the traced program, so a change does not cause a compilation. State has the sharding of its
// parameter, and is also sharded over the axes of the batch. Gradients are reduce-scattered over these axes, every
// device updates its part, and the new parameters are gathered (ZeRO stage 2, Rajbhandari et al., 2020).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/frontend/tensor/state_dict.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/optim/optimizer_state.h"

namespace tessera::optim {

/// Parameters that share options. A parameter that requires no gradient has no state and is not updated.
struct ParameterGroup {
  std::vector<Tensor> parameters{};
  double weight_decay = 0;
  std::optional<double> learning_rate{};  // nullopt: that of the optimizer
  std::optional<bool> use_muon{};         // for make_optimizer("muon"); nullopt: true for matrices
};

/// The base of all optimizers.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  /// Traces the update of every parameter that has a gradient.
  void step(std::source_location where = std::source_location::current());
  /// Removes the gradients of all parameters.
  void zero_grad();
  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  /// The learning rate with which the optimizer was made.
  [[nodiscard]] double initial_learning_rate() const { return initial_rate_; }
  /// Sets the learning rate. If a group has its own rate, this rate changes by the same factor.
  virtual void set_learning_rate(double value) { learning_rate_ = value; }
  /// The learning rate of group number `group`.
  [[nodiscard]] double learning_rate_of(int group) const;
  /// The learning rate of step number `step`, from 1, if the optimizer computes it itself. nullopt: it uses
  /// learning_rate().
  [[nodiscard]] virtual std::optional<double> computed_rate(std::int64_t /*step*/) const { return std::nullopt; }
  /// The number of calls of step().
  [[nodiscard]] std::int64_t step_count() const { return steps_; }
  virtual void set_step_count(std::int64_t steps) { steps_ = steps; }
  [[nodiscard]] virtual std::vector<Tensor> parameters() const;

  using NamedState = optim::NamedState;
  /// State by name: `exp_avg.NAME` …, in the order of the parameters.
  [[nodiscard]] virtual std::vector<NamedState> named_state() const;
  /// A message for the user about state that does not have the requested format; "" if all state has the format.
  [[nodiscard]] virtual std::string note() const;
  /// The name of the class, for messages and checkpoints: `AdamW`.
  [[nodiscard]] virtual std::string class_name() const;
  /// named_state(), and the number of steps so far as `step`. Each name contains the name of its parameter, so the
  /// order of parameters and groups may change. A load into the StateDict also sets step_count(). Learning rates and
  /// other options are not part of the state.
  [[nodiscard]] StateDict state_dict() const;
  /// Gives the state the values of another state dict. Errors: those of Module::load_state_dict().
  LoadStateResult load_state_dict(const StateDict& source, const LoadStateOptions& options = {});

  /// Until the next call, a step takes effect only if `applies`, a pred scalar, is true. `skipped`, a scalar, is the
  /// number of steps so far without effect; the step number in formulas does not count them. If `applies` is null, all
  /// steps take effect. GradScaler calls this function.
  virtual void set_condition(const Tensor& applies, const Tensor& skipped);

 protected:
  Optimizer(std::vector<ParameterGroup> groups, double learning_rate);
  /// For an optimizer that consists of other optimizers.
  explicit Optimizer(double learning_rate);

  /// The update of one parameter.
  struct Update {
    int index = 0;  // of the parameter, over all groups
    int group = 0;
    double weight_decay = 0;
    DType dtype{};     // in which the update is computed
    Tensor parameter;  // the variable
    Tensor value;      // of the parameter, in dtype
    Tensor gradient;   // in dtype
  };
  /// Traces one update: gives the state its new values, and returns the new value of the parameter, in any element
  /// type.
  virtual Tensor update(const Update& update) = 0;
  /// Traces the updates of all parameters with gradients.
  virtual void update_all(std::source_location where);

  /// Makes state of zeros for every parameter that requires a gradient. If options.format is not kFull, it is the
  /// requested format of note().
  StateQuantity& make_state(const std::string& prefix, const StateOptions& options = {});
  /// Gives the state of the parameter of `update` a new value, unless the step has no effect (set_condition()).
  void write(StateQuantity& state, const Update& update, const Tensor& value) const;

  /// If `maximizes`, updates get the negated gradients, so that they increase the loss.
  void set_maximize(bool maximizes) { maximizes_ = maximizes; }
  /// The gradient plus that of the L2 penalty: g + decay p.
  [[nodiscard]] static Tensor penalized_gradient(const Update& update);
  /// The value of the parameter after decoupled weight decay: p - lr decay p.
  [[nodiscard]] Tensor decayed_value(const Update& update);

  /// The learning rate of the group of an update, as an input of the program.
  Tensor rate(const Update& update);
  /// Returns a scalar input of the program. A step has one input for each name and type. `value` is called at each
  /// step.
  Tensor step_input(const std::string& name, DType dtype, const std::function<double()>& value);
  /// The same, with the value of `function` at the number of the step, which begins with 1. `function` must accept a
  /// double and a scalar tensor.
  template <class F>
  Tensor of_step(const std::string& name, DType dtype, F function) {
    if (skipped_.is_null())
      return step_input(name, dtype, [this, function] { return function(static_cast<double>(step_count())); });
    return Tensor(function(step_number())).to(dtype);
  }
  /// The learning rate of the group of an update, times `function` of the number of the step.
  template <class F>
  Tensor rate_times(const std::string& name, const Update& update, F function) {
    if (!skipped_.is_null()) return rate(update) * of_step(name, update.dtype, function);
    return step_input(name + suffix_of(update.group), update.dtype, [this, function, group = update.group] {
      return learning_rate_of(group) * function(static_cast<double>(step_count()));
    });
  }
  /// A suffix for the names of inputs that depend on the rate of the group.
  [[nodiscard]] std::string suffix_of(int group) const;

  std::vector<ParameterGroup> groups_;
  double learning_rate_;
  double initial_rate_;
  std::int64_t steps_ = 0;

 private:
  Tensor step_number();
  void update_group(int group, int& index);

  std::vector<std::unique_ptr<StateQuantity>> states_;
  std::map<std::pair<std::string, DType>, Tensor> inputs_;  // of this step
  std::vector<bool> is_frozen_;                             // of each parameter, at construction
  StateFormat asked_format_ = StateFormat::kFull;
  bool maximizes_ = false;
  Tensor applies_;
  Tensor skipped_;
  std::shared_ptr<Optimizer> self_{this, [](Optimizer*) {}};  // state dicts refer to it weakly; it owns nothing
};

struct OptimizerStepOptions {
  bool barrier = false;  // also end the step, as mark_step() does
};
/// PyTorch/XLA's name of optimizer.step(). A gradient is always that of the complete batch: if the batch is sharded,
/// the partitioner inserts the all-reduce. If the loss is a mean over the batch, gradients are therefore averages over
/// the ranks, and parameters stay equal on all ranks. As in PyTorch/XLA, it is an error if FSDP shards a parameter:
/// call optimizer.step() instead.
void optimizer_step(Optimizer& optimizer, OptimizerStepOptions options = {},
                    std::source_location where = std::source_location::current());

struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double dampening = 0;
  StateFormat state_format = StateFormat::kFull;
  bool maximize = false;
};
/// SGD as in PyTorch: buf = momentum buf + (1 - dampening) (g + decay p); p -= lr buf. The first step has no dampening.
class SGD : public Optimizer {
 public:
  SGD(std::vector<Tensor> parameters, const SgdOptions& options);
  SGD(std::vector<ParameterGroup> groups, const SgdOptions& options);

 protected:
  Tensor update(const Update& update) override;

 private:
  SgdOptions options_;
  StateQuantity* buffers_ = nullptr;
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // as in Hugging Face's Trainer; PyTorch's default is 0.01
  bool amsgrad = false;
  StateFormat state_format = StateFormat::kFull;
  bool maximize = false;
};
/// AdamW (Loshchilov and Hutter, 2019) with PyTorch's order of operations.
class AdamW : public Optimizer {
 public:
  AdamW(std::vector<Tensor> parameters, const AdamWOptions& options);
  AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options);

 protected:
  Tensor update(const Update& update) override;
  /// True if weight decay subtracts a multiple of the parameter. False if it adds this multiple to the gradient.
  [[nodiscard]] virtual bool is_decoupled() const { return true; }

 private:
  AdamWOptions options_;
  StateQuantity* first_ = nullptr;
  StateQuantity* second_ = nullptr;
  StateQuantity* largest_ = nullptr;  // of second_, with amsgrad
};

/// Adam (Kingma and Ba, 2015) with PyTorch's order of operations. Weight decay is an L2 penalty, which is added to the
/// gradient.
class Adam : public AdamW {
 public:
  using AdamW::AdamW;

 protected:
  [[nodiscard]] bool is_decoupled() const override { return false; }
};

/// Returns the 2-norm of all gradients together.
Tensor global_norm(const std::vector<Tensor>& parameters);
/// Scales all gradients by max_norm / (norm + 1e-6) if that is below 1. Returns the norm before scaling.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace tessera::optim

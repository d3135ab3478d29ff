// SPDX-License-Identifier: Apache-2.0
// A function of tensors that is traced once: later calls run the program of the first, without looking at an op.
//
//   CompiledFunction step = compile([&](const std::vector<Tensor>& batch) {
//     const Tensor loss = model(batch[0], batch[1]);
//     loss.backward();
//     optimizer.step();
//     optimizer.zero_grad();
//     return std::vector<Tensor>{loss};
//   });
//   for (const auto& batch : loader) const Tensor loss = step({batch.tokens, batch.labels}).front();
//
// A call is a step: as if mark_step() followed it. What varies from call to call:
//   - the arguments: tensors with a value (Tensor::from, results of earlier steps). Other types or shardings are traced anew, once.
//     Two may be one tensor, or a variable that the function uses: that is traced anew only where it takes gradients with regard to it or
//     assigns it. One that the function assigns has its new value afterwards;
//   - the variables that the function uses, by their value at the call. Those it assigns have their new value afterwards;
//   - learning rate, step count, random numbers, and Tensor::scalar of a function.
// Everything else is as it was when the function was traced: numbers, branches, training or evaluation mode, tensors made of host data.
// A call that throws before the program runs changes nothing: variables, step counts and random numbers are as they were.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

class CompiledFunction {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  explicit CompiledFunction(Function function);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&&) noexcept;
  CompiledFunction& operator=(CompiledFunction&&) noexcept;

  /// Collective. Errors of the first call with some types: the function read a value or ended the step; it leaves a gradient or a tensor
  /// behind that it does not return; an argument without a value.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments,
                                 std::source_location where = std::source_location::current());

 private:
  struct Form;  // for arguments of some types and shardings
  Function function_;
  std::vector<std::unique_ptr<Form>> forms_;
};

/// Traces `function` at its first call. It must not outlive what it refers to.
inline CompiledFunction compile(CompiledFunction::Function function) { return CompiledFunction(std::move(function)); }

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// A function of tensors that is traced once. Later calls run the program of the first call without tracing.
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
// A call is a step, as if mark_step() followed it. The following may vary between calls:
//   - the arguments: tensors with a value (Tensor::from, results of earlier steps). Each combination of types and
//     shardings is traced once. Two arguments may be the same tensor, and an argument may be a variable that the
//     function uses; the function is then traced again only if it computes gradients with respect to this variable or
//     assigns it. An argument that the function assigns has its new value afterwards;
//   - the variables that the function uses, which have their value at the time of the call. Variables that it assigns
//     have their new value afterwards;
//   - the learning rate, step count, random numbers, and Tensor::scalar of a function.
// Everything else is as at the time of tracing: numbers, branches, training or evaluation mode, tensors made from host
// data. A call that throws before the program runs changes nothing: variables, step counts and random numbers keep
// their values.
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

  /// Runs one step. Collective. Errors of the first call with some argument types: the function reads a value or ends
  /// the step; it leaves a gradient or tensor that it does not return; an argument has no value.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments,
                                 std::source_location where = std::source_location::current());

 private:
  struct Form;  // the program for some argument types and shardings
  Function function_;
  std::vector<std::unique_ptr<Form>> forms_;
};

/// Traces `function` at its first call. Everything that `function` refers to must outlive the result.
inline CompiledFunction compile(CompiledFunction::Function function) { return CompiledFunction(std::move(function)); }

}  // namespace tessera

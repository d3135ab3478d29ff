// SPDX-License-Identifier: Apache-2.0
#include "tessera/autodiff/gradients.h"

#include "reverse_pass.h"
#include "tessera/ops/structural.h"

namespace tessera {

std::vector<Value> flowing_gradients(Builder& builder, const std::vector<Value>& outputs,
                                     const std::vector<Value>& d_outputs, const std::vector<Value>& wrt) {
  ensure(outputs.size() == d_outputs.size(), "{} gradients for {} outputs", d_outputs.size(), outputs.size());
  std::vector<Value> out;
  for (const auto& leaves : autodiff::differentiate(builder, ops::tuple(builder, outputs), d_outputs, wrt))
    out.push_back(leaves.front());
  return out;
}

std::vector<Value> gradients(Builder& builder, Value output, const std::vector<Value>& wrt, Value d_output) {
  const Type type = output.type();  // a copy, because emitting reallocates the instructions
  require(type.is_array() && is_float(type.dtype()), "a gradient needs an output of a float type, %{} is {}",
          output.instruction().name, type);
  require(type.ndim() == 0, "a gradient needs a scalar output, %{} is {}", output.instruction().name, type);
  if (d_output.is_null()) d_output = ops::scalar(builder, type.dtype(), 1);
  require(d_output.type() == type, "the gradient of the output has type {}, but the output %{} has type {}",
          d_output.type(), output.instruction().name, type);
  const auto leaves = autodiff::differentiate(builder, output, {d_output}, wrt);
  std::vector<Value> out;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    require(wrt[i].type().is_array(), "the gradient with respect to %{} is not defined: its type is {}",
            wrt[i].instruction().name, wrt[i].type());
    out.push_back(leaves[i][0].is_null() ? ops::full(builder, wrt[i].type(), 0) : leaves[i][0]);
  }
  return out;
}

}  // namespace tessera

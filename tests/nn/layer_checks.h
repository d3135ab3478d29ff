// SPDX-License-Identifier: Apache-2.0
// Values, variables and errors of layers.
#pragma once

#include <string>
#include <vector>

#include "nn/check_gradients.h"
#include "nn/module_checks.h"

namespace tessera::nn {

using Numbers = std::vector<double>;

inline Numbers values_of(const Tensor& x) { return x.to_vector<double>(); }

/// The parameters of the module, then the inputs.
inline std::vector<Tensor> variables_of(const Module& module, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> out = module.parameters();
  out.insert(out.end(), inputs.begin(), inputs.end());
  return out;
}

/// Gives every parameter other numbers, also those that start as zeros or ones.
inline void vary_parameters(const Module& module) {
  int seed = 1;
  for (Tensor parameter : module.parameters()) parameter.assign(numbers(parameter.dims(), seed++));
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Checks that the message of the error of `f` starts with `reason`.
template <class F>
void expect_error(F&& f, const std::string& reason) {
  EXPECT_EQ(message_of(f).substr(0, reason.size()), reason);
}

}  // namespace tessera::nn

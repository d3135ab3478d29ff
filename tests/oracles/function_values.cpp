// SPDX-License-Identifier: Apache-2.0
// Prints the results of every case of tests/frontend/tensor/function_cases.cpp, and the gradients of loss_of(result), as
// JSON: {"name": {"shape": […], "values": [result, gradient of input 0, …]}, …}. tensor_functions.py reads it.
#include <fmt/format.h>

#include <cstdio>

#include "frontend/tensor/function_cases.h"

namespace tessera::testing {
namespace {

std::string array_text(const Literal& value) { return fmt::format("[{}]", fmt::join(value.data<double>(), ",")); }

std::string results_text(const FunctionCase& one) {
  const std::vector<Tensor> inputs = inputs_of(one, input_values(one));
  std::vector<Tensor> wanted{one.function(inputs)};
  const Shape shape = wanted[0].shape();
  loss_of(wanted[0]).backward();
  for (const auto& input : inputs) wanted.push_back(input.grad().is_null() ? zeros_like(input) : input.grad());
  mark_step();
  std::vector<std::string> arrays;
  for (const auto& literal : read_all(wanted)) arrays.push_back(array_text(literal));
  return fmt::format(R"("{}": {{"shape": {}, "values": [{}]}})", one.name, shape.str(), fmt::join(arrays, ","));
}

}  // namespace
}  // namespace tessera::testing

int main() {
  std::vector<std::string> texts;
  for (const auto& one : tessera::testing::function_cases()) texts.push_back(tessera::testing::results_text(one));
  fmt::print("{{{}}}\n", fmt::join(texts, ",\n"));
  return 0;
}

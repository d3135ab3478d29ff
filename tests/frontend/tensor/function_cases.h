// SPDX-License-Identifier: Apache-2.0
// Functions of tensors, each with inputs. The tests compare their gradients with finite differences, and their values
// and gradients on many meshes with those of one rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/frontend/tensor/functions.h"

namespace tessera::testing {

struct FunctionCase {
  std::string name;
  std::vector<Dims> inputs;  // f64
  std::function<Tensor(const std::vector<Tensor>&)> function;
  /// Changes the values of the inputs, which are distinct numbers in (-1, 1).
  std::function<double(double)> values{};
};

std::vector<FunctionCase> pointwise_cases();
std::vector<FunctionCase> reduction_cases();
std::vector<FunctionCase> shaping_cases();
std::vector<FunctionCase> product_cases();
std::vector<FunctionCase> indexing_cases();
std::vector<FunctionCase> writing_cases();
std::vector<FunctionCase> mathematics_cases();
std::vector<FunctionCase> statistics_cases();
std::vector<FunctionCase> rearranging_cases();
std::vector<FunctionCase> random_cases();

/// All of them.
std::vector<FunctionCase> function_cases();

/// The inputs of a case: variables with requires_grad.
std::vector<Tensor> inputs_of(const FunctionCase& one, std::vector<std::vector<double>> values);
std::vector<std::vector<double>> input_values(const FunctionCase& one);
/// A scalar that depends on every element of the result in another way.
Tensor loss_of(const Tensor& result);

}  // namespace tessera::testing

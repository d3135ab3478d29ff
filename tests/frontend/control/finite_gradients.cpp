// SPDX-License-Identifier: Apache-2.0
#include "frontend/control/finite_gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tessera/base/text.h"

namespace tessera::testing {

Literal seeded_values(const Dims& dims, unsigned seed) {
  std::mt19937 dice(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(product(dims)));
  for (double& value : values) value = number(dice);
  return Literal::from<double>(dims, values);
}

Differentiated differentiated(const TensorFunction& function, const std::vector<Literal>& arguments) {
  std::vector<Tensor> tensors;
  for (const Literal& argument : arguments) {
    tensors.push_back(Tensor::from_host(argument));
    tensors.back().set_requires_grad();
  }
  const Tensor value = function(tensors);
  value.backward();
  mark_step();
  Differentiated out{value.item(), {}};
  for (const Tensor& tensor : tensors) out.gradients.push_back(tensor.grad().to_vector<double>());
  return out;
}

namespace {

double value_of(const TensorFunction& function, const std::vector<Literal>& arguments) {
  std::vector<Tensor> tensors;
  for (const Literal& argument : arguments) tensors.push_back(Tensor::from_host(argument));
  const Tensor value = function(tensors);
  mark_step();
  return value.item();
}

}  // namespace

void expect_finite_differences(const TensorFunction& function, const std::vector<Literal>& arguments) {
  constexpr double kStep = 1e-5;
  const Differentiated exact = differentiated(function, arguments);
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    const auto data = arguments[a].data<double>();
    const std::vector<double> values(data.begin(), data.end());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto moved = [&](double by) {
        std::vector<Literal> changed = arguments;
        std::vector<double> there = values;
        there[i] += by;
        changed[a] = Literal::from<double>(arguments[a].type().dims(), there);
        return value_of(function, changed);
      };
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      EXPECT_NEAR(exact.gradients[a][i], slope, 1e-6 * (1 + std::abs(slope))) << "argument " << a << ", element " << i;
    }
  }
}

void expect_equal_functions(const TensorFunction& a, const TensorFunction& b, const std::vector<Literal>& arguments) {
  const Differentiated one = differentiated(a, arguments);
  const Differentiated other = differentiated(b, arguments);
  EXPECT_NEAR(one.value, other.value, 1e-9 * (1 + std::abs(other.value)));
  ASSERT_EQ(one.gradients.size(), other.gradients.size());
  for (std::size_t k = 0; k < one.gradients.size(); ++k)
    for (std::size_t i = 0; i < one.gradients[k].size(); ++i)
      EXPECT_NEAR(one.gradients[k][i], other.gradients[k][i], 1e-9 * (1 + std::abs(other.gradients[k][i])))
          << "argument " << k << ", element " << i;
}

}  // namespace tessera::testing

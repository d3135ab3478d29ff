// SPDX-License-Identifier: Apache-2.0
// Compares gradients of a scalar with central differences, for a few elements of every variable.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {

/// Different numbers in (-1, 1), without a pattern.
inline Tensor numbers(const Dims& dims, int seed = 1) {
  std::vector<double> values(static_cast<std::size_t>(product(dims)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(1.7 * static_cast<double>(i) + 0.9 * seed) * 0.9 + 0.05 * std::cos(static_cast<double>(i * i));
  return Tensor::from<double>(dims, values);
}

/// A scalar in which every element counts differently.
inline Tensor weighted_sum(const Tensor& x) { return sum(x * numbers(x.dims(), 9)); }

inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                        double tolerance = 1e-12) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

/// `loss` is traced anew at each call. All variables are f64.
inline void expect_gradients(const std::function<Tensor()>& loss, std::vector<Tensor> variables) {
  for (Tensor& variable : variables) {
    variable.set_requires_grad();
    variable.zero_grad();
  }
  loss().backward();
  mark_step();
  for (std::size_t v = 0; v < variables.size(); ++v) {
    Tensor& variable = variables[v];
    ASSERT_FALSE(variable.grad().is_null()) << "variable " << v;
    const auto gradient = variable.grad().to_vector<double>();
    const Literal before = variable.to_host();
    const auto loss_at = [&](std::size_t i, double shift) {
      Literal moved = before;
      moved.mutable_data<double>()[i] += shift;
      variable.assign(Tensor::from_host(moved));
      const double value = loss().item();
      mark_step();
      return value;
    };
    for (const std::size_t i : {std::size_t{0}, gradient.size() / 3, (7 * gradient.size()) / 11, gradient.size() - 1}) {
      const double step = 1e-5;
      const double numeric = (loss_at(i, step) - loss_at(i, -step)) / (2 * step);
      EXPECT_NEAR(gradient[i], numeric, 1e-8 + 2e-6 * std::fabs(numeric)) << "variable " << v << " element " << i;
    }
    variable.assign(Tensor::from_host(before));
    mark_step();
  }
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Checks of modules in f64: gradients by finite differences, and training on several ranks.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/module.h"
#include "tessera/optim/optimizer.h"

namespace tessera::nn {

/// Numbers between -1 and 1 without a period that a window could have.
inline Tensor varied(const Dims& dims, double phase = 0) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < product(dims); ++i) values.push_back(std::sin(phase + static_cast<double>(i * i % 97)));
  return Tensor::from<double>(dims, values);
}
/// Integers from 0 to `count` - 1.
inline Tensor varied_ids(const Dims& dims, std::int64_t count, std::int64_t offset = 0) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < product(dims); ++i)
    values.push_back(static_cast<std::int32_t>((offset + 7 * i + i * i / 5) % count));
  return Tensor::from<std::int32_t>(dims, values);
}

/// Compares a few elements of every parameter's gradient of `loss` with finite differences.
inline void expect_gradients(Module& module, const std::function<Tensor()>& loss, double tolerance = 1e-7) {
  loss().backward();
  for (Tensor parameter : module.parameters()) {
    const auto gradient = parameter.grad().to_vector<double>();
    const auto start = parameter.to_vector<double>();
    for (std::size_t i = 0; i < start.size(); i += 1 + start.size() / 2) {
      constexpr double kStep = 1e-5;
      const auto loss_at = [&](double value) {
        auto moved = start;
        moved[i] = value;
        parameter.assign(Tensor::from<double>(parameter.dims(), moved));
        return loss().item();
      };
      const double slope = (loss_at(start[i] + kStep) - loss_at(start[i] - kStep)) / (2 * kStep);
      EXPECT_NEAR(gradient[i], slope, tolerance * (1 + std::fabs(slope))) << parameter.name() << " " << i;
      parameter.assign(Tensor::from<double>(parameter.dims(), start));
    }
  }
}

/// Trains with SGD. Returns the losses, and then the parameters and the buffers that are floats.
inline std::vector<double> trained_values(Module& module, const std::function<Tensor(int step)>& loss_of,
                                          int steps = 2) {
  std::vector<double> out;
  optim::SGD optimizer(module.parameters(), {.learning_rate = 0.05});
  for (int step = 0; step < steps; ++step) {
    const Tensor loss = loss_of(step);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
    out.push_back(loss.item());
  }
  for (const auto& list : {module.named_parameters(), module.named_buffers()})
    for (const auto& [name, tensor] : list) {
      if (tensor.dtype() != DType::kF64) continue;
      const auto values = tensor.to_vector<double>();
      out.insert(out.end(), values.begin(), values.end());
    }
  return out;
}

inline void expect_close(const std::vector<double>& got, const std::vector<double>& expected, const std::string& what,
                         double tolerance = 1e-9) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << what << " " << i;
}

/// The names of the parameters, then of the buffers, with their shapes in files.
inline std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> out;
  for (const auto& list : {module.named_parameters(), module.named_buffers()})
    for (const NamedParameter& each : list) {
      const Dims& dims = each.exported_dims;
      std::string text = each.name;
      for (std::size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? " " : "x") + std::to_string(dims[i]);
      out.push_back(text);
    }
  return out;
}

}  // namespace tessera::nn

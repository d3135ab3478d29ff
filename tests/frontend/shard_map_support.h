// SPDX-License-Identifier: Apache-2.0
// Compares functions of shards with functions of complete arrays.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/sharding/shard_map.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {

inline const Mesh kGrid({{"data", 2}, {"model", 3}});

inline void expect_message(const std::function<void()>& body, const std::string& part) {
  const std::string text = testing::error_of(body);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Numbers without a pattern, between -1 and 1.
inline Tensor numbers(Dims dims, double seed, bool requires_grad = true) {
  std::vector<double> values(static_cast<std::size_t>(Type::array(DType::kF64, dims).element_count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(seed + 1.7 * static_cast<double>(i * i + i));
  Tensor out = Tensor::from<double>(dims, values);
  if (requires_grad) out.set_requires_grad();
  return out;
}

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

struct Outcome {
  std::vector<std::vector<double>> values;  // the result, then the gradients of the inputs
};
// The result of f, and the gradients of the sum of the result times fixed numbers.
inline Outcome outcome_of(const Function& f, const std::vector<Dims>& dims) {
  Inputs inputs;
  for (std::size_t i = 0; i < dims.size(); ++i) inputs.push_back(numbers(dims[i], static_cast<double>(i) + 0.3));
  const Tensor result = f(inputs);
  sum(result * numbers(result.dims(), 9.1, false)).backward();
  mark_step();
  Outcome out{{result.to_vector<double>()}};
  for (const Tensor& input : inputs) out.values.push_back(input.grad().to_vector<double>());
  return out;
}
inline void expect_same(const std::vector<Dims>& dims, const Function& sharded, const Function& complete,
                        int ranks = 6) {
  on_ranks(ranks, [&](int) {
    const Outcome a = outcome_of(sharded, dims), b = outcome_of(complete, dims);
    ASSERT_EQ(a.values.size(), b.values.size());
    for (std::size_t k = 0; k < a.values.size(); ++k) {
      ASSERT_EQ(a.values[k].size(), b.values[k].size());
      for (std::size_t i = 0; i < a.values[k].size(); ++i)
        ASSERT_NEAR(a.values[k][i], b.values[k][i], 1e-12) << (k == 0 ? "result" : "gradient of input") << " " << k;
    }
  });
}

}  // namespace tessera

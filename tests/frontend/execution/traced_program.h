// SPDX-License-Identifier: Apache-2.0
// A small program to trace, and questions about its trace.
#pragma once

#include <gtest/gtest.h>

#include "frontend/execution/trace_reader.h"
#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {

/// The sum of a product over a dim that is sharded over all devices. Its program has an all-reduce over {data}.
inline Tensor sharded_sum(std::int64_t rows) {
  const Tensor x = Tensor::from<float>({rows, 6}, std::vector<float>(static_cast<std::size_t>(rows) * 6, 1));
  mark_sharding(x, Mesh({{"data", device_count()}}), {{}, "data"});
  return sum(matmul(x, Tensor::ones(Type::array(DType::kF32, {6, 5}))));
}

/// The only event of a category and name in a process.
inline testing::TracedEvent only(const testing::TraceReader& trace, std::int64_t process, std::string_view category,
                                 std::string_view name = "") {
  const auto found = trace.find(process, category, name);
  EXPECT_EQ(found.size(), 1U) << category << " " << name << " of process " << process;
  return found.empty() ? testing::TracedEvent{} : found.front();
}

inline bool has(const testing::TraceReader& trace, std::int64_t process, std::string_view category,
                std::string_view name) {
  return !trace.find(process, category, name).empty();
}

}  // namespace tessera

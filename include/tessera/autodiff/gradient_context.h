// SPDX-License-Identifier: Apache-2.0
// What an op's gradient function sees. It returns one Value per operand: the gradient that flows to it, of the
// operand's type (or with sum_type's elements), or a null Value where none does. It may skip work for operands that `needs` says no one asks about.
#pragma once

#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

struct GradientContext {
  Builder& builder;
  const OpView& view;
  /// Forward values; autodiff may have recomputed them.
  std::vector<Value> operands;
  Value result;
  /// The gradient of the result; for a tuple result one per leaf, null where no gradient arrived.
  std::vector<Value> d_results;
  std::vector<bool> needed;
  /// One per operand: the element type in which its gradient is summed up, wider than the operand's where that is a narrow copy of a
  /// parameter. A row whose gradient adds things up (a product, the sum behind a broadcast, a scatter) may give it in this type.
  std::vector<DType> sum_types{};

  [[nodiscard]] Value operand(int i) const { return at(operands, i); }
  [[nodiscard]] Value d_result() const { return d_results.front(); }
  [[nodiscard]] bool needs(int i) const { return at(needed, i); }
  [[nodiscard]] DType sum_type(int i) const { return sum_types.empty() ? operand(i).type().dtype() : at(sum_types, i); }
};

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The arguments of OpDef::gradient. The function returns one Value for each operand: the gradient of the operand, with
// the operand's type (or with elements of sum_type). A null Value means that no gradient flows to the operand. The
// function may skip operands for which needs() is false.
#pragma once

#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// The arguments of OpDef::gradient.
struct GradientContext {
  Builder& builder;
  const OpView& view;
  /// The operands in the forward pass, or rematerialized copies of them.
  std::vector<Value> operands;
  Value result;
  /// The gradient of the result; for a tuple result one per leaf, null where no gradient arrived.
  std::vector<Value> d_results;
  /// For each operand: whether its gradient is required.
  std::vector<bool> needed;
  /// For each operand, the element type in which its gradient is summed. It is wider than the operand's type if the
  /// operand is a narrow copy of a parameter. A gradient function that sums (by a product, a reduction or a scatter)
  /// may return the gradient in this type.
  std::vector<DType> sum_types{};

  [[nodiscard]] Value operand(int i) const { return at(operands, i); }
  [[nodiscard]] Value d_result() const { return d_results.front(); }
  [[nodiscard]] bool needs(int i) const { return at(needed, i); }
  [[nodiscard]] DType sum_type(int i) const { return sum_types.empty() ? operand(i).type().dtype() : at(sum_types, i); }
};

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// What an op's gradient function sees. It returns one Value per operand: the gradient that flows to it, of the
// operand's
// type, or a null Value where none does. It may skip work for operands that `needs` says no one asks about.
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

  [[nodiscard]] Value operand(int i) const { return at(operands, i); }
  [[nodiscard]] Value d_result() const { return d_results.front(); }
  [[nodiscard]] bool needs(int i) const { return at(needed, i); }
};

}  // namespace tessera

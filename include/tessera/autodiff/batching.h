// SPDX-License-Identifier: Apache-2.0
// Computations for several examples (vmap): the instructions of a computation that was traced for one example get an
// additional dim 0 if their operands differ between the examples.
#pragma once

#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// A value for several examples. A leaf is batched if it has one element for each example along a further dim 0; other
/// leaves are the same for all examples.
struct Batched {
  Value value;
  std::vector<bool> leaves;

  /// True if a leaf is batched.
  [[nodiscard]] bool any() const;
};

/// Appends the instructions of `computation`, which is for one example, for `examples` examples, with `arguments` in
/// place of its parameters. Returns the root.
///
/// An op whose operands are all equal for all examples is computed once. For others, `OpDef::batch` gives the form for
/// several examples; ops without such a form run in a loop over the examples. A conditional whose index is batched
/// computes all branches and selects. A while whose condition is batched runs until the condition is false for all
/// examples. Once it is false for an example, the state of this example does not change. A call with kGradientAttribute
/// becomes such a call for several examples. Errors: an op with a side effect, a collective or a border of a manual
/// region has a batched operand.
Batched batched(Builder& into, const Computation& computation, const std::vector<Batched>& arguments,
                std::int64_t examples);

/// Returns the value, in which all leaves for which `leaves` is true are batched.
Batched with_batched(const Batched& x, const std::vector<bool>& leaves, std::int64_t examples);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The parts of a scan: the traced body, its gradient, and the two loops.
//
//   forward    (carry, xs, captured) -> (carry, ys, residuals)         loop over i = 0 … n-1
//   backward   (carry, xs, captured, carry, ys, residuals, d_carry, d_ys) -> (d_carry, d_xs, d_captured)
//
// A residual is a value of the body that the backward pass reads, stacked along a new dim 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/traced_values.h"
#include "tessera/frontend/control/control_flow.h"

namespace tessera::control {

/// The body of a scan as a function of (index, carry, x, captured).
struct ScanFunction {
  FunctionTrace& body;
  detail::ScanCall call;
  int carry_count = 0;
  int x_count = 0;

  [[nodiscard]] int captured_count() const { return isize(body.captured()); }
  [[nodiscard]] int y_count() const;
  /// The position along dim 0 of iteration i.
  [[nodiscard]] Value place(Value i) const;
  /// The index that the body sees.
  [[nodiscard]] Value index(Value place) const;
};

/// The gradient of the body.
struct BodyGradient {
  /// Takes (index, carry, x, captured, residuals, d_results), with one d_result for each float result. The root is a
  /// tuple of gradients, one for each float argument except for the index.
  Computation computation;
  std::vector<Id> residuals;  // values of the body's builder, all before its root; or parameters of the carry
};
/// Differentiates the body. Nullopt with a message if an op has no gradient; an empty message if nothing is a float.
std::optional<BodyGradient> body_gradient(const ScanFunction& function, std::string& message);

/// Adds the forward loop, which also stacks the residuals.
ComputationId add_forward(const ScanFunction& function, const std::vector<Value>& operands,
                          const std::vector<Id>& residuals);
/// Adds the backward loop. `result` is the type of the forward loop's result.
ComputationId add_backward(const ScanFunction& function, const std::vector<Value>& operands, const Type& result,
                           const BodyGradient& gradient);

}  // namespace tessera::control

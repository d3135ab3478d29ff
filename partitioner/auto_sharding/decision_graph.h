// SPDX-License-Identifier: Apache-2.0
// The choices of shardings of a program as a problem for the solver.
//
//   %h = dot(%x, %w)      node %x: its storage     node %w: its storage   node %h: op_choices() of the dot
//   %y = tanh(%h)         no node: it has the sharding of %h              edges %x-%h, %w-%h: the reshards between them
//
// A node is an op with its result, or another value: a parameter, the state of a loop, or an annotated value.
// Elementwise ops follow the op that makes their operand. Equal ops and equal pairs of ops share their costs.
#pragma once

#include <memory>

#include "auto_sharding/op_choices.h"
#include "propagation/trials.h"
#include "tessera/solver/problem.h"
#include "tessera/solver/solve.h"

namespace tessera {

class DecisionGraph {
 public:
  DecisionGraph(const Variant& variant, const MachineModel& machine);
  ~DecisionGraph();
  /// Without a memory limit.
  [[nodiscard]] const solver::Problem& problem() const;
  /// The slots with the shardings of an assignment of choices to the nodes of the problem.
  [[nodiscard]] std::vector<PropagationSlot> slots_of(const std::vector<std::int32_t>& choices) const;

 private:
  class Builder;
  std::unique_ptr<Builder> builder_;
};

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The reverse pass over a computation under construction. It starts at the root, asks the row of each op for its
// gradients, and adds up the gradients that arrive at each value. A value of tuple type has one gradient for each leaf.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "recompute.h"
#include "region_gradients.h"
#include "tessera/ir/builder.h"

namespace tessera::autodiff {

/// One gradient for each leaf of a type, or null for a leaf without a gradient.
using LeafGradients = std::vector<Value>;

/// Returns the gradients that flow to each of `wrt` when `d_root` flows to the leaves of `root`.
std::vector<LeafGradients> differentiate(Builder& builder, Value root, const LeafGradients& d_root,
                                         const std::vector<Value>& wrt);

/// Returns true if the type has a leaf of float type.
bool has_float_leaf(const Type& type);

class ReversePass {
 public:
  ReversePass(Builder& builder, Value root, const std::vector<Value>& wrt);
  void arrive(Id value, int leaf, Value gradient);
  void run();
  [[nodiscard]] LeafGradients gradients_of(Value value) const;

  // Used by the functions that differentiate called computations.
  [[nodiscard]] Builder& builder() { return builder_; }
  [[nodiscard]] bool depends(Id value) const { return at(depends_, value); }
  [[nodiscard]] Value value_for_backward(Id value) { return recompute_.value_for_backward(value); }
  void arrive_leaves(Id value, const LeafGradients& gradients);

 private:
  void find_dependents(const std::vector<Value>& wrt);
  void step(Id id);
  void step_by_row(Id id, const Instruction& instruction);
  void step_unshard(const Instruction& instruction, Value gradient);
  NotesRef backward_notes(const NotesRef& notes);

  Builder& builder_;
  Id first_ = 0;  // nothing before this depends on wrt
  Id root_;
  std::vector<bool> depends_;  // true for values that depend on wrt through floats
  std::vector<bool> flows_;    // true for instructions with an operand that depends on wrt
  std::vector<LeafGradients> gradients_;
  Recompute recompute_;
  RegionGradients regions_;
  std::unordered_map<const Notes*, NotesRef> notes_;
};

/// The value of kGradientAttribute, if it names a computation.
struct CallGradient {
  ComputationId computation = -1;
  int count = 0;  // of the results of the function
};
CallGradient call_gradient(const std::string& text);

// Gradients of called computations (nested.cpp and loops.cpp).
void step_call(ReversePass& pass, Id id, const Instruction& instruction, const LeafGradients& d_results);
void step_form(ReversePass& pass, const Instruction& instruction, const LeafGradients& d_results);
void step_conditional(ReversePass& pass, const Instruction& instruction, const LeafGradients& d_results);
void step_while(ReversePass& pass, const Instruction& instruction, const LeafGradients& d_results);

}  // namespace tessera::autodiff

// SPDX-License-Identifier: Apache-2.0
// Loops of computations under construction.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera::autodiff {

/// Returns true for a get-tuple-element of an instruction `tuple`.
bool reads_tuple(const Computation& computation, const Instruction& instruction);
/// Returns the element that such an instruction reads.
Id element_read(const Computation& computation, const Instruction& instruction);
/// Returns true if the body of a loop, whose root is a tuple, passes element e of its parameter on.
bool passes_on(const Computation& body, int e);

/// The elements of a tuple. Reads no tuple that was just made.
std::vector<Value> elements_of(Value tuple);

/// Maps the counter and the elements of a loop to the next elements.
using LoopBody = std::function<std::vector<Value>(Builder& inner, Value round, const std::vector<Value>& elements)>;
/// Emits a while loop over (counter = 0, init…), which runs while counter < trips, so its trip count is known. Returns
/// the final elements.
std::vector<Value> counted_loop(Builder& outer, const std::string& name, const std::vector<Value>& init,
                                std::int64_t trips, const LoopBody& body);

/// Returns element `index` of dim 0, without this dim.
Value row_at(Value stack, Value index);
/// Returns the stack with element `index` of dim 0 replaced.
Value with_row_at(Value stack, Value row, Value index);

}  // namespace tessera::autodiff

// SPDX-License-Identifier: Apache-2.0
// Loops with a known number of rounds. A stack has one row, along dim 0, for each round.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera::ops {

/// Returns the elements of a tuple: the operands of an instruction `tuple`, else new get-tuple-elements.
std::vector<Value> elements_of(Value tuple);

/// Maps the counter and the elements of a loop to the next elements.
using LoopBody = std::function<std::vector<Value>(Value counter, const std::vector<Value>& elements)>;
/// Emits `while (counter < rounds)` over (counter = 0, init…), and returns the final elements. The computations are
/// called `name`.condition and `name`.body.
std::vector<Value> counted_while(Builder& outer, const std::string& name, std::int64_t rounds,
                                 const std::vector<Value>& init, const LoopBody& body);

/// Returns row `index`, a scalar s32, of a stack: [n, dims..] -> [dims..].
Value row_at(Value stack, Value index);
/// Returns the stack [n, dims..] with `row` [dims..] in place of row `index`.
Value with_row_at(Value stack, Value row, Value index);

}  // namespace tessera::ops

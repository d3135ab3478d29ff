// SPDX-License-Identifier: Apache-2.0
// Helpers of passes that move instructions between the body of a loop and its caller.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tessera/passes/rewriter.h"

namespace tessera {

/// Returns the element of the state that the instruction reads: i for get-tuple-element(parameter), index=i.
std::optional<std::int64_t> state_element(const Computation& computation, Id id);

/// Returns true if the only readers of the state are get-tuple-elements. A computation with another number of
/// parameters than one has no state.
bool reads_only_elements(const Computation& computation);

/// The number of instructions that call each computation of the program.
std::vector<int> call_counts(const Program& program);

/// Returns element i of a tuple: its operand if the tuple is a tuple instruction, otherwise a get-tuple-element.
Value element_of(Value tuple, std::int64_t i);

/// Emits an instruction of another computation, such as the body of a loop, in the computation of `r`. Omits its
/// sharding and its control predecessors.
Value clone_into(ComputationRewriter& r, const Instruction& instruction, const std::vector<Value>& operands);

/// Emits a value of a loop's body in the computation of `r`, with everything that it depends on. `state` has the
/// elements of the state. `made` has the values that exist already, and receives the emitted ones.
Value compute_from_state(ComputationRewriter& r, const Computation& body, Id id, const std::vector<Value>& state,
                         std::map<Id, Value>& made);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Helpers to rewrite a computation without tuples: each old value becomes a list of new leaf values, and tuples are
// rebuilt only where an op needs one.
#pragma once

#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

using LeafValues = std::vector<Value>;

/// The leaves of a value of any type, by get-tuple-element; an array is its own leaf. Each leaf keeps its sharding.
LeafValues take_apart(Value value);
/// A value of `type` from its leaves: the leaf itself, or a (nested) tuple.
Value put_together(Builder& builder, const Type& type, const LeafValues& leaves);
/// The operands of an instruction of the old computation, from the new leaves of all its operands.
std::vector<Value> operands_of_leaves(Builder& builder, const Computation& old, const Instruction& instruction,
                                      const LeafValues& leaves);
/// Selects the leaves of element `index` from the leaves of a tuple.
LeafValues element_of(const Type& tuple, std::int64_t index, const LeafValues& leaves);
/// The index of a get-tuple-element or parameter.
std::int64_t index_of(const Instruction& instruction);
/// The header of a program without its computations.
Program header_of(const Program& program);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Rewriting a computation whose tuples are taken apart: every old value is a list of new leaf values, and tuples are made again
// only where an op needs one.
#pragma once

#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

using LeafValues = std::vector<Value>;

/// Leaf values of a value of any type, by get-tuple-element; an array is its own leaf. Shardings go along leaf by leaf.
LeafValues take_apart(Value value);
/// One value of `type` from its leaves: the leaf itself, or (nested) tuples.
Value put_together(Builder& builder, const Type& type, const LeafValues& leaves);
/// The leaves of element `index` of a tuple type within the tuple's leaves.
LeafValues element_of(const Type& tuple, std::int64_t index, const LeafValues& leaves);
/// The number of a get-tuple-element or parameter.
std::int64_t index_of(const Instruction& instruction);
/// The header of a program without its computations.
Program header_of(const Program& program);

}  // namespace tessera

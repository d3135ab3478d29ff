// SPDX-License-Identifier: Apache-2.0
// Values that every device can compute without cost in any sharding: constants, iotas, broadcasts of scalars.
#pragma once

#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// Whether the instruction computes such a value.
bool is_rematerializable(const Computation& computation, const Instruction& instruction);
/// By operand leaf: whether every device can compute the operand in any sharding.
std::vector<bool> rematerialized_operands(const Computation& computation, const Instruction& instruction);

/// Gives every use of such a value its own instruction, so that shardings do not propagate from one user to another
/// through a common zero. Annotated values stay unchanged; merge_duplicates merges those that end up equal.
Program duplicate_cheap_values(const Program& program);

/// The same for computed values regardless of their sharding, so that no value is kept in memory between readers.
/// Constants are in memory anyway.
Program with_duplicated_splats(const Program& program);

}  // namespace tessera

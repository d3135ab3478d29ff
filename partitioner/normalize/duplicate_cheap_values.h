// SPDX-License-Identifier: Apache-2.0
// Values that every device can make for itself, at no cost, however they lie: constants, iotas, broadcasts of scalars.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Whether an instruction makes such a value.
bool is_rematerializable(const Computation& computation, const Instruction& instruction);

/// Gives every use of such a value an instruction of its own, so that no sharding passes from one user to another through a zero
/// that both begin with. Annotated ones are left alone; merge_duplicates joins those that end alike.
Program duplicate_cheap_values(const Program& program);

/// The same for what is computed, whatever its sharding: nothing is then held from one reader to the next. Constants are there anyway.
Program with_duplicated_splats(const Program& program);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// For each value of a computation, the value that replaces it as an operand and as the root. An empty list replaces
/// nothing.
using StandIns = std::vector<Id>;

/// Replaces each value by its stand-in and performs remove_dead_code(), with a single copy of the program.
Program without_dead_code(const Program& program, const std::vector<StandIns>& stand_ins);

}  // namespace tessera

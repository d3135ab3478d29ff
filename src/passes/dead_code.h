// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// By value of a computation the one that stands for it wherever it is an operand or the root; empty: each for itself.
using StandIns = std::vector<Id>;

/// remove_dead_code() after every use of a value has become one of its stand-in: in one copy.
Program without_dead_code(const Program& program, const std::vector<StandIns>& stand_ins);

}  // namespace tessera

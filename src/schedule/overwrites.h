// SPDX-License-Identifier: Apache-2.0
// Determines which values may be written into memory that holds another value.
#pragma once

#include <vector>

#include "flow.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

/// By result leaf of the entry computation: the parameter leaf whose memory it takes according to the program's
/// aliases, or -1. Throws an Error if the types differ.
std::vector<int> aliased_parameters(const Program& program, const Flow& flow);

/// Whether the step may write `slot` into the memory of `origin`: it reads every element of `origin` before it writes
/// `slot` there, because it processes element by element or because the op updates its operand in place.
bool may_overwrite(const Flow& flow, const Step& step, int slot, int origin);

}  // namespace tessera::schedule

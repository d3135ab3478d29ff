// SPDX-License-Identifier: Apache-2.0
// Which values may be written into memory that holds another value.
#pragma once

#include <vector>

#include "flow.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

/// By result leaf of the entry computation: the parameter leaf whose memory the program's aliases give it; -1: none. Error where types differ.
std::vector<int> aliased_parameters(const Program& program, const Flow& flow);

/// Whether the step may write `slot` into the memory of `origin`: every element of `origin` is read before `slot` is written there, because
/// the step goes element by element, or because the op updates its operand in place.
bool may_overwrite(const Flow& flow, const Step& step, int slot, int origin);

}  // namespace tessera::schedule

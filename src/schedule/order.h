// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flow.h"

namespace tessera::schedule {

/// Instructions in memory, in the order in which they run: program order, but gathers and their like just before their first
/// reader, and whatever frees at least as much as it takes at once.
std::vector<Id> order_of(const Flow& flow, bool reorder);

}  // namespace tessera::schedule

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flow.h"

namespace tessera::schedule {

/// The order of execution of instructions in memory: program order, except that gathers and similar ops are placed just
/// before their first reader, and instructions that free at least as much memory as they take are placed as early as
/// possible.
std::vector<Id> order_of(const Flow& flow, bool reorder);

}  // namespace tessera::schedule

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Checks a collective in a manual region: its groups must be along the region's axes and equal at all positions along
/// the other axes. Throws an Error if the groups (or pairs) of two positions differ.
void check_region_collective(const Instruction& collective);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// A collective in a manual region speaks along the region's axes, at every place along the others alike: values are one along those. Error
/// where the groups (or pairs) of two places differ.
void check_region_collective(const Instruction& collective);

}  // namespace tessera

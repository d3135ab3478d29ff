// SPDX-License-Identifier: Apache-2.0
// Which elementwise instructions run together, tile by tile.
#pragma once

#include "flow.h"

namespace tessera::schedule {

/// The order cut into steps. A group stands where its last member stood; no one outside reads a member before that. All members
/// have the same number of elements and follow one another through plain (row-major) reads.
std::vector<std::vector<Id>> group_steps(const Flow& flow, const std::vector<Id>& order, bool fuse);

}  // namespace tessera::schedule

// SPDX-License-Identifier: Apache-2.0
// Selects the elementwise instructions that run together, tile by tile.
#pragma once

#include "flow.h"

namespace tessera::schedule {

/// Divides the order into steps. A group is placed at its last member, and no outside instruction reads a member before
/// that. All members have the same number of elements and read each other row-major.
std::vector<std::vector<Id>> group_steps(const Flow& flow, const std::vector<Id>& order, bool fuse);

/// A buffer that a step could overwrite: the readers of origin slot `read` should run before the step that computes
/// `written`.
struct Overwrite {
  int read = -1;
  int written = -1;
};
/// Moves those readers forward where the data flow permits; all other steps keep their order.
std::vector<std::vector<Id>> readers_first(const Flow& flow, std::vector<std::vector<Id>> steps,
                                           const std::vector<Overwrite>& overwrites);

}  // namespace tessera::schedule

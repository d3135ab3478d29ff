// SPDX-License-Identifier: Apache-2.0
// Which elementwise instructions run together, tile by tile.
#pragma once

#include "flow.h"

namespace tessera::schedule {

/// The order cut into steps. A group stands where its last member stood; no one outside reads a member before that. All members
/// have the same number of elements and follow one another through plain (row-major) reads.
std::vector<std::vector<Id>> group_steps(const Flow& flow, const std::vector<Id>& order, bool fuse);

/// A buffer that a step would like to overwrite: the readers of origin slot `read` should run before the one that makes `written`.
struct Overwrite {
  int read = -1;
  int written = -1;
};
/// The steps with those readers moved forward where the data flow allows it; everything else keeps its order.
std::vector<std::vector<Id>> readers_first(const Flow& flow, std::vector<std::vector<Id>> steps,
                                           const std::vector<Overwrite>& overwrites);

}  // namespace tessera::schedule

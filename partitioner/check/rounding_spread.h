// SPDX-License-Identifier: Apache-2.0
// The values that correct runs of a program may give, by element of the results: measured on the unpartitioned program
// by changing every rounding. It detects results that are noise divided by noise, such as the AdamW update of a bias
// whose exact gradient is 0.
#pragma once

#include <cstdint>
#include <vector>

#include "check/rounding_changes.h"
#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Bits of SeenRange::kinds.
enum SeenKind : unsigned { kSeenNan = 1, kSeenInfinity = 2, kSeenMinusInfinity = 4 };

/// Arrays of f64 (c128 for complex leaves) of a leaf's dims; empty tuples if not measured.
struct SeenRange {
  Literal low{};    // the least finite value; infinite if there is none
  Literal high{};   // the largest finite value; minus infinity if there is none
  Literal kinds{};  // the other values that were seen
};

/// By leaf of the result: the values of `expected` and of `rounds` times kChangedRuns runs in which all rounded values
/// change.
std::vector<SeenRange> rounding_ranges(const Program& program, const std::vector<Literal>& arguments,
                                       const Literal& expected, const RoundingModel& model, int rounds,
                                       std::int64_t trip_limit);

}  // namespace tessera

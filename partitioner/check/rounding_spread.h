// SPDX-License-Identifier: Apache-2.0
// The possible difference between two correct runs of a program, by element of the results: measured on the
// unpartitioned program by changing every rounding. It detects results that are noise divided by noise, such as the
// AdamW update of a bias whose exact gradient is 0.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// By leaf of the result, an array of f64 (c128 for complex leaves) of the leaf's dims: the largest difference from
/// `expected` in runs in which inputs and all rounded values change by up to the relative `amount` (0: by two units in
/// the last place). Infinite if an element is finite in one run and infinite or NaN in another, or if an integer
/// changes.
std::vector<Literal> rounding_spreads(const Program& program, const std::vector<Literal>& arguments,
                                      const Literal& expected, double amount, std::int64_t trip_limit);

}  // namespace tessera

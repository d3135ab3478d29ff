// SPDX-License-Identifier: Apache-2.0
// How far two correct runs of a program may be apart, by element of the results: measured on the unpartitioned program with every
// rounding changed. A result that is noise divided by noise (the AdamW update of a bias whose exact gradient is 0) is found here.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// By leaf of the result, an array of f64 (c128 where the leaf is complex) of the leaf's dims: the largest distance from `expected` over runs
/// in which inputs and everything that rounds are moved by up to `amount`, a share of their values (0: by two units of their types). Infinite where an element is a number
/// in one run and infinite or NaN in another, and where an integer changes.
std::vector<Literal> rounding_spreads(const Program& program, const std::vector<Literal>& arguments,
                                      const Literal& expected, double amount, std::int64_t trip_limit);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Partial parameters and results of a program: the values that tools pass to devices, and how they combine the
// returned values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Returns `unreduced over data+model`, or `unreduced (max) over ..` for other reductions than sums, or "" if the
/// sharding is not partial.
std::string unreduced_text(const Sharding& sharding);

/// Splits `value` into a sum: one random partial value for each coordinate of the axes over which `sharding` is
/// partial. Integers add up exactly (they wrap). Floats do so too if `value` contains multiples of `unit` that are
/// small compared with the precision of the dtype (see in_units). For preds, narrow types and other reductions, one
/// coordinate has the value and the others the identity of the reduction.
std::vector<Literal> random_partial_values(const Literal& value, const Sharding& sharding, double unit,
                                           std::uint64_t seed);

/// Rounds floats to multiples of `unit`, never to zero. Other types do not change.
Literal in_units(const Literal& value, double unit);

/// Returns for each device the reduction of the shards of its group.
std::vector<Literal> reduced_shards(const Sharding& sharding, const std::vector<Literal>& shards);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Partial parameters and results of a program: functions with which tools create the arguments of devices and combine
// their results.
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

/// Splits `value` into random partial values, one for each coordinate of the axes over which `sharding` is partial.
/// Their sum is `value`. Sums of integers are exact, because integers wrap around. Sums of floats are exact if the
/// elements of `value` are multiples of `unit` (in_units()) that are small compared with the precision of the element
/// type. For preds, narrow types and other reductions than sums, one coordinate has the value and the others have the
/// identity of the reduction.
std::vector<Literal> random_partial_values(const Literal& value, const Sharding& sharding, double unit,
                                           std::uint64_t seed);

/// Rounds floats to multiples of `unit`, never to zero. Other types do not change.
Literal in_units(const Literal& value, double unit);

/// Returns for each device the reduction of the shards of its group.
std::vector<Literal> reduced_shards(const Sharding& sharding, const std::vector<Literal>& shards);

}  // namespace tessera

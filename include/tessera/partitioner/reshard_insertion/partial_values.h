// SPDX-License-Identifier: Apache-2.0
// Values that are partial where a program begins or ends: what tools give to devices, and what they make of what comes back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// `unreduced over data+model`; of other reductions than sums `unreduced (max) over ..`; "" of what is not partial.
std::string unreduced_text(const Sharding& sharding);

/// `value` as a sum, one random partial value per coordinate of the axes that `sharding` is partial over. Integers add up exactly (they
/// wrap), floats too if `value` holds multiples of `unit` that are small beside their dtype's precision (see in_units). Preds,
/// narrow types and other reductions than sums: one coordinate has the value, the others the reduction's identity.
std::vector<Literal> random_partial_values(const Literal& value, const Sharding& sharding, double unit,
                                           std::uint64_t seed);

/// Floats rounded to multiples of `unit`, never to zero; others as they are.
Literal in_units(const Literal& value, double unit);

/// By device: what the shards of its group reduce to.
std::vector<Literal> reduced_shards(const Sharding& sharding, const std::vector<Literal>& shards);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The inputs of the two programs of a check: seeded arguments, and their shards with poisoned padding.
#pragma once

#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Overwrites elements outside of the device's interval of the global array by NaN or the largest integer.
void poison_padding(Literal& local, const Type& global, const Sharding& sharding, std::int64_t device);

/// Replaces every third integer in arrays of 32 and 64 bits by a number up to slightly more than the largest dim of all
/// arguments, so that indices reach every tile. (Seeded arguments are small numbers, because scalars often are trip
/// counts.)
void spread_integers(std::vector<Literal>& arguments, std::uint64_t seed);

/// Partial arguments are multiples of this number, so that their partial values add up exactly.
double unit_of_partial_values(double scale);
/// Rounds partial arguments to multiples of `unit`. `global`: the entry with all shardings.
void make_divisible(std::vector<Literal>& arguments, const Computation& global, double unit);

/// Replaces elided constants by seeded values, which are equal for all copies of a constant in both programs of a
/// check.
Program with_drawn_constants(const Program& program, std::uint64_t seed);

/// [device][parameter], with random partial values for partial arguments.
std::vector<std::vector<Literal>> shards_of_arguments(const std::vector<Literal>& arguments, const Computation& global,
                                                      std::int64_t devices, double unit, std::uint64_t seed);

}  // namespace tessera

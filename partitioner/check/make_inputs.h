// SPDX-License-Identifier: Apache-2.0
// What the two programs of a check are given: seeded arguments, cut into shards with poisoned padding.
#pragma once

#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Overwrites what lies outside the device's interval of the global array: NaN, or the largest integer.
void poison_padding(Literal& local, const Type& global, const Sharding& sharding, std::int64_t device);

/// Gives every third integer of arrays of 32 and 64 bits a number up to just beyond the largest dim of all arguments: indices into it reach
/// every tile. (Seeded arguments are small numbers: scalars often say how often a loop runs.)
void spread_integers(std::vector<Literal>& arguments, std::uint64_t seed);

/// Partial arguments are multiples of it, so that their partial values add up exactly.
double unit_of_partial_values(double scale);
/// The arguments that come as partial values, in units. `global`: the entry with all its shardings.
void make_divisible(std::vector<Literal>& arguments, const Computation& global, double unit);

/// With seeded values in place of elided constants: the same for every copy of a constant, in either program of a check.
Program with_drawn_constants(const Program& program, std::uint64_t seed);

/// [device][parameter]; of what is partial random partial values.
std::vector<std::vector<Literal>> shards_of_arguments(const std::vector<Literal>& arguments, const Computation& global,
                                                      std::int64_t devices, double unit, std::uint64_t seed);

}  // namespace tessera

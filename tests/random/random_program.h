// SPDX-License-Identifier: Apache-2.0
// Seeded random programs with random shardings on random meshes: what check_partition is tried on.
#pragma once

#include <cstdint>
#include <string_view>

#include "random/sharding_kinds.h"

#include "tessera/ir/program.h"

namespace tessera::testing {

/// An op that must stand in the program, with an annotation of a kind that must be on it.
struct Feature {
  std::string_view op;
  ShardingKind kind = ShardingKind::kReplicated;
};
/// Goes through all pairs of op and kind that can exist, one a seed.
Feature feature_of(std::uint64_t seed);
std::int64_t feature_count();

/// Why no instruction of the op can be annotated so; "" when one can.
std::string_view impossible(const Feature& feature);

/// The same program for the same seed and number of steps (random ops besides the featured one; -1: drawn). Sizes are small, often
/// prime, devices 1 to 8 on meshes of 1 to 3 axes. Ops come from the samples of the conformance laws, so that every row of the table takes
/// part, and from makers here that chain well; values are used several times, also within loops, branches, calls and manual regions.
Program random_program(std::uint64_t seed, const Feature& feature, int steps = -1);
inline Program random_program(std::uint64_t seed) { return random_program(seed, feature_of(seed)); }

}  // namespace tessera::testing

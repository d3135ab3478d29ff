// SPDX-License-Identifier: Apache-2.0
// Seeded random programs with random shardings on random meshes, with which check_partition is tested.
#pragma once

#include <cstdint>
#include <string_view>

#include "random/sharding_kinds.h"

#include "tessera/ir/program.h"

namespace tessera::testing {

/// An op that must occur in the program, with an annotation of the given kind.
struct Feature {
  std::string_view op;
  ShardingKind kind = ShardingKind::kReplicated;
};
/// Returns each possible pair of op and kind for some seed.
Feature feature_of(std::uint64_t seed);
std::int64_t feature_count();

/// Returns why no instruction of the op can have this annotation, or "" if one can.
std::string_view impossible(const Feature& feature);

/// Returns the same program for the same seed and number of steps (the random ops in addition to the featured one; -1:
/// drawn). Sizes are small and often prime; 1 to 8 devices form meshes of 1 to 3 axes. Ops come from the samples of the
/// conformance laws, so that every row of the table occurs, and from functions of the generator that chain well. Values
/// are used several times, also in loops, branches, calls and manual regions.
Program random_program(std::uint64_t seed, const Feature& feature, int steps = -1);
inline Program random_program(std::uint64_t seed) { return random_program(seed, feature_of(seed)); }

}  // namespace tessera::testing

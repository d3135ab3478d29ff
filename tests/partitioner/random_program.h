// SPDX-License-Identifier: Apache-2.0
// Seeded random programs with random shardings on random meshes: what check_partition is tried on.
#pragma once

#include <cstdint>

#include "tessera/ir/program.h"

namespace tessera::testing {

struct RandomProgramOptions {
  int instructions = 11;  // ops besides parameters
  std::int64_t max_devices = 8;
};

/// The same program for the same seed. Sizes are small, often prime; meshes have 1 to 3 axes; parameters, some values in between
/// and sometimes the result are annotated, some specs with sub-axes.
Program random_program(std::uint64_t seed, const RandomProgramOptions& options = {});

}  // namespace tessera::testing

// SPDX-License-Identifier: Apache-2.0
// Shardings to reshard between, and a check that a plan's program moves the values that it should for the bytes it says.
#pragma once

#include <string>
#include <vector>

#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera::testing {

/// Every sharding of `ndim` dims over whole axes of the mesh: each axis in a dim (in every order), replicated, or, if asked,
/// partial.
std::vector<Sharding> all_shardings(const Mesh& mesh, int ndim, bool with_partial,
                                    Reduction reduction = Reduction::kSum);

/// Plans, emits, verifies and runs from -> to; padding of the operand holds NaN, and so does every zero that the emitted program
/// pads with. Empty when each device holds what it should and the program's bytes and collectives are the plan's; else what
/// is wrong.
std::string check_reshard(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology = {});

/// 1 in the default run; with TESSERA_LONG_TESTS every case is taken.
std::size_t stride_of(std::size_t cases, std::size_t wanted);

}  // namespace tessera::testing

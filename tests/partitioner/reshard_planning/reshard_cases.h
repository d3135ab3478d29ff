// SPDX-License-Identifier: Apache-2.0
// Shardings between which tests reshard, and a check that a plan's program gives the right values for the predicted
// bytes.
#pragma once

#include <string>
#include <vector>

#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera::testing {

/// Returns every sharding of `ndim` dims over complete axes of the mesh: each axis shards a dim (in every order), is
/// replicated or, on request, partial.
std::vector<Sharding> all_shardings(const Mesh& mesh, int ndim, bool with_partial,
                                    Reduction reduction = Reduction::kSum);

/// Plans, emits, verifies and runs the reshard. The padding of the operand holds NaN, and so does every zero with which
/// the emitted program pads. Returns "" if each device holds the right values and the program has the plan's bytes and
/// collectives; otherwise returns the error.
std::string check_reshard(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology = {});

/// Returns the stride that takes about `wanted` of the cases; 1 with TESSERA_LONG_TESTS.
std::size_t stride_of(std::size_t cases, std::size_t wanted);

}  // namespace tessera::testing

// SPDX-License-Identifier: Apache-2.0
// Whether the ranks pass equal values where they must: complete values from the host, and shards that several ranks hold.
#pragma once

#include <cstdint>

#include "execution/execute.h"

namespace tessera {

/// One hash of all complete values that this rank passes from the host.
std::uint64_t hash_of_inputs(const ExtractedProgram& extracted);
/// Whether this rank passes a shard (from_local_shards) that the sharding places on other ranks too.
bool passes_replicated_shards(const ExtractedProgram& extracted);

/// Collective, after a difference of hash_of_inputs(). Throws on every rank, with the input and the ranks, if two ranks
/// pass different complete values, or if a rank passes another value than the result that other ranks hold. A rank may
/// read a result and pass it again.
void compare_inputs(ProcessGroup& world, const ExtractedProgram& extracted, const RunReason& reason);
/// Collective. Throws on every rank if two ranks pass different shards where the sharding places the same elements.
void compare_shards(ProcessGroup& world, const ExtractedProgram& extracted, const RunReason& reason);

}  // namespace tessera

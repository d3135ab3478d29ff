// SPDX-License-Identifier: Apache-2.0
// Results that reuse the memory of parameters (input_output_alias) when both are sharded.
#pragma once

#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// For each leaf of the entry's result, the sharding of the parameter whose memory it reuses; null if it reuses none.
std::vector<const Sharding*> shardings_of_donors(const Program& program);
/// The aliases whose two sides have equal shard types; a device cannot use the others. Throws an error if a required
/// alias is among them.
std::vector<Alias> aliases_of_shards(const Program& program);

}  // namespace tessera

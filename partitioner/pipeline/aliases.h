// SPDX-License-Identifier: Apache-2.0
// Results that take the memory of parameters (input_output_alias), where both are sharded.
#pragma once

#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// For each leaf of the entry's result the sharding of the parameter whose memory it takes; null when it takes none.
std::vector<const Sharding*> shardings_of_donors(const Program& program);
/// The aliases whose two sides have shards of one type; the others are of no use on a device. Error for one that must be.
std::vector<Alias> aliases_of_shards(const Program& program);

}  // namespace tessera

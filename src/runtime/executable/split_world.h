// SPDX-License-Identifier: Apache-2.0
// The process groups of the collectives in a program.
#pragma once

#include <memory>

#include "tessera/collectives/process_group.h"
#include "tessera/lowering/rank_groups.h"

namespace tessera {

/// Returns the process group among `groups` that contains this rank. Equal partitions of the world share one object.
std::shared_ptr<ProcessGroup> split_into(ProcessGroup& world, const RankGroups& groups);

}  // namespace tessera

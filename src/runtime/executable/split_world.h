// SPDX-License-Identifier: Apache-2.0
// Process groups of the collectives in a program.
#pragma once

#include <memory>

#include "tessera/collectives/process_group.h"
#include "tessera/lowering/rank_groups.h"

namespace tessera {

/// The process group of this rank among `groups`: one object per partition of the world, however often it is requested.
std::shared_ptr<ProcessGroup> split_into(ProcessGroup& world, const RankGroups& groups);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// A process group that can be switched to local memory: each collective then reads and writes as much memory as before,
// but only that of this rank. The difference to a step with real collectives is exposed communication.
#pragma once

#include <memory>

#include "tessera/collectives/process_group.h"

namespace tessera::bench {

/// Shared by a group and all groups split from it. All ranks must switch at the same step.
struct LocalReads {
  bool on = false;
};

/// Returns `group` with local reads while `local->on`. Results are then wrong, but as finite as the operands.
std::shared_ptr<ProcessGroup> with_local_reads(std::shared_ptr<ProcessGroup> group, std::shared_ptr<LocalReads> local);

}  // namespace tessera::bench

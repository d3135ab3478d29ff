// SPDX-License-Identifier: Apache-2.0
// A process group that can be told to leave the others alone: each collective then reads and writes as much memory as before, but only
// this rank's. The difference to a step with the real ones is communication that nothing hides.
#pragma once

#include <memory>

#include "tessera/collectives/process_group.h"

namespace tessera::bench {

/// Shared by a group and all that are split from it. All ranks must switch at the same step.
struct LocalReads {
  bool on = false;
};

/// `group`, and while `local->on` the stand-in; results are then wrong, but as finite as the operands.
std::shared_ptr<ProcessGroup> with_local_reads(std::shared_ptr<ProcessGroup> group, std::shared_ptr<LocalReads> local);

}  // namespace tessera::bench

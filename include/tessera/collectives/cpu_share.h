// SPDX-License-Identifier: Apache-2.0
// What part of a processor a rank has when all compute: less than one where a machine has more ranks than processors for them.
#pragma once

#include "tessera/collectives/process_group.h"

namespace tessera {

/// 0 < share <= 1: the processors that the ranks of this machine may run on together, divided among them. Collective.
double cpu_share(ProcessGroup& world);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Which passes over collectives run, and in which order.
#pragma once

#include "tessera/partitioner/collective_passes.h"
#include "tessera/passes/pipeline.h"

namespace tessera {

void add_collective_passes(Pipeline& pipeline, const CollectivePassOptions& options);

}  // namespace tessera

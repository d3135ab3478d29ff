// SPDX-License-Identifier: Apache-2.0
// The selection and order of the passes over collectives.
#pragma once

#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/pipeline.h"

namespace tessera {

/// The arguments must outlive the pipeline.
void add_collective_passes(Pipeline& pipeline, const CollectivePassOptions& options, const MachineModel& machine);

/// Returns the program in the order, among a few candidates, with the lowest peak memory. Computations with side
/// effects and large programs keep their order.
Program order_for_memory(const Program& program);

/// Turns concatenations whose parts have no other reader into updates of one buffer, each directly after its part is
/// computed.
Program concatenate_in_place(const Program& program);

}  // namespace tessera

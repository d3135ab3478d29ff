// SPDX-License-Identifier: Apache-2.0
// Measures the machine that a job runs on.
#pragma once

#include "tessera/collectives/process_group.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// The options of measure_machine().
struct MachineMeasurement {
  /// The axes whose links are measured. Without axes, the links between all ranks are measured.
  Mesh mesh{};
  /// The time to measure each figure, in seconds.
  double seconds_per_figure = 0.2;
};

/// Runs products, elementwise ops and copies on every rank at once, and all-gathers along each axis of the mesh. The
/// result is equal on all ranks: speeds are the median over the ranks, and links are those of the slowest rank. In a
/// world of one rank, the links are those of the preset `cpu-node`. The memory of a device is that of the machine
/// divided by the number of ranks of the node. Collective. Error: the mesh has another number of devices than the world
/// has ranks.
MachineModel measure_machine(ProcessGroup& world, const MachineMeasurement& how = {});

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The devices that collectives name must exist.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Throws an Error if the collective names a device that the program does not have. Its numbers are those of all
/// partitions of all replicas, as the ranks of a run are. A program of one partition and one replica is not checked:
/// texts may omit both numbers, and then a run determines the number of devices.
void check_devices(const Program& program, const Instruction& collective);
/// The same for all collectives of the program.
void check_devices_of_collectives(const Program& program);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Chooses the shardings of all values that have no annotation.
#pragma once

#include <vector>

#include "propagation/trials.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// The part of the time to write the memory of a device that counts as time: of choices that take about equally long, the
/// one with less memory is better.
inline constexpr double kMemoryWeight = 0.01;

/// The slots of `variant` with the shardings of least modelled time. The values that are alive together may need
/// `memory_share` of the memory that they need in the fastest choice, or as little as possible if that is more: the solver
/// counts values, and the memory of the final program is another number.
std::vector<PropagationSlot> chosen_shardings(const Variant& variant, const MachineModel& machine, double memory_share);

}  // namespace tessera

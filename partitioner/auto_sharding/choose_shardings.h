// SPDX-License-Identifier: Apache-2.0
// Chooses the shardings of all values that have no annotation.
#pragma once

#include <vector>

#include "propagation/trials.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// The factor with which the time to write the memory of a device once is added to the time of a choice. Of choices
/// that take about equally long, the one with less memory then costs less.
inline constexpr double kMemoryWeight = 0.01;

/// Returns the slots of `variant` with the shardings of least modelled time. The memory of the values that are alive at
/// one time is at most `memory_share` of that of the fastest choice, or as little as possible if that is more. It is a
/// fraction and no number of bytes, because the solver counts values, and the final program needs another amount of
/// memory.
std::vector<PropagationSlot> chosen_shardings(const Variant& variant, const MachineModel& machine, double memory_share);

}  // namespace tessera

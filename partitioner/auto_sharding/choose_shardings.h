// SPDX-License-Identifier: Apache-2.0
// Chooses the shardings of all values that have no annotation.
#pragma once

#include <optional>
#include <vector>

#include "propagation/trials.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// The slots of `variant` with the shardings of least modelled time under the memory limit. Error if nothing fits, with the
/// least memory.
std::vector<PropagationSlot> chosen_shardings(const Variant& variant, const MachineModel& machine,
                                              std::optional<std::int64_t> memory);

}  // namespace tessera

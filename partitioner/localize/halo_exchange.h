// SPDX-License-Identifier: Apache-2.0
// Exchanges the rows of a halo between neighbouring tiles: one permute per round, each with only the rows that some
// tile lacks.
#pragma once

#include "reshard_planning/exchange_plan.h"
#include "strategy/windows.h"

namespace tessera::reshard {

/// Whether to gather all tiles instead, of which each device takes a part. True if permutes would transfer as many rows
/// as the gather, or if there would be too many permutes.
bool is_gathered(const Halo& halo);
/// The messages that fill a halo, and the rows along its dim that one device receives.
RowCount count_window(const Halo& halo);
/// `locals`: the current dims of the operand on a device. The sharding gives the device's position along halo.axes.
Exchange exchange_window(const Mesh& mesh, const Halo& halo, const Dims& locals);

}  // namespace tessera::reshard

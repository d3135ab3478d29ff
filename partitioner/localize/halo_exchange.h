// SPDX-License-Identifier: Apache-2.0
// How tiles get the rows of a halo that their neighbours hold: one permute per round, each of just the rows that someone lacks.
#pragma once

#include "reshard_planning/exchange_plan.h"
#include "strategy/windows.h"

namespace tessera::reshard {

/// Whether all tiles are gathered and each takes its part: where permutes would bring as many rows, or be too many.
bool is_gathered(const Halo& halo);
/// The messages that fill a halo, and the rows along its dim that one device receives in them.
RowCount count_window(const Halo& halo);
/// Whether an exchange leaves zeros wherever no element lies: whole shards side by side (behind them empty ones, of which nothing
/// is read), and a permute brings zeros to those that nobody sends to.
bool fills_with_zeros(const Halo& halo);
/// The same of what is read before position 0, which no tile's padding reaches.
bool begins_with_zeros(const Halo& halo);
/// `locals`: what a device holds of the operand now, along all its dims; the sharding says where along halo.axes it stands.
Exchange exchange_window(const Mesh& mesh, const Halo& halo, const Dims& locals);

}  // namespace tessera::reshard

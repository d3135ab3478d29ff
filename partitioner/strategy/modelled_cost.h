// SPDX-License-Identifier: Apache-2.0
// What a program whose every value has a sharding would cost a device: the time modelled for its reshards, halos and work.
#pragma once

#include "strategy/strategy.h"
#include "tessera/ir/program.h"

namespace tessera {

/// Of a program after insert_reshards and remove_dead_code: copies between shardings become collectives, everything else is computed
/// in parts. Loops count as often as they run.
double program_seconds(const Program& program, const CostModel& cost);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The modelled time of a program in which every value has a sharding: its reshards, halos and work on one device.
#pragma once

#include "strategy/strategy.h"
#include "tessera/ir/program.h"

namespace tessera {

/// The program must have passed insert_reshards and remove_dead_code: copies between shardings count as collectives,
/// all other ops as sharded computation. Loops count as often as they run.
double program_seconds(const Program& program, const CostModel& cost);

}  // namespace tessera

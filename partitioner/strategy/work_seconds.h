// SPDX-License-Identifier: Apache-2.0
// The time that a device works on its part of an op.
#pragma once

#include "propagation/factor_sharding.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// An op that sums over factors of two operands is a product. It is wide (WorkClass) if it is wide on the shards of a
/// device.
WorkClass work_class(const FactorMap& map, const Strategy& strategy);
/// The time for `flops` operations of a device and for `bytes` of operands and results, which it reads and writes once.
double work_seconds(const OpView& view, const FactorMap& map, const Strategy& strategy, double flops, double bytes,
                    const MachineModel& machine);

}  // namespace tessera

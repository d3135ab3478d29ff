// SPDX-License-Identifier: Apache-2.0
// Outfeeds with a sharding of the sent data: every device sends its own shard, without padding.
//
//   %o = token[] outfeed(f32[7,3] %x, %t), sharding={devices=[2,1]<=[2]}   device 0 sends f32[4,3], device 1 f32[3,3]
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Moves such outfeeds to a manual region, where they send the local shard. If the sizes differ between devices, or
/// only one device sends, they are branches of a conditional. All regions of a program are over one mesh. If it cannot
/// express a sharding, as with another order of the devices, the devices exchange their shards in the region.
Program with_outfeeds_of_shards(const Program& program);

}  // namespace tessera

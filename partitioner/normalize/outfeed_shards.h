// SPDX-License-Identifier: Apache-2.0
// outfeed with a sharding of what it sends: every device sends its own shard, without padding.
//
//   %o = token[] outfeed(f32[7,3] %x, %t), sharding={devices=[2,1]<=[2]}       device 0 sends f32[4,3], device 1 f32[3,3]
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Such an outfeed stands in a manual region, where it sends the local shard; where devices send different sizes, or one of them only, in a
/// conditional with a branch for each.
Program with_outfeeds_of_shards(const Program& program);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Offsets for buffers with known lives: an interval colouring.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

struct BufferLife {
  std::int64_t bytes = 0;
  std::int32_t first = 0;  // steps, both ends included
  std::int32_t last = 0;
  std::int64_t alignment = kBufferAlignment;
};
struct ArenaOffsets {
  std::vector<std::int64_t> offsets;  // multiples of kBufferAlignment
  std::int64_t total = 0;
};

/// Buffers that share a step never overlap in memory. Large ones first, each into the tightest gap; in order of time where
/// there are very many. The best of these and of one between them.
ArenaOffsets place_buffers(const std::vector<BufferLife>& lives);
/// Gives the arena's buffers their offsets.
void place_in_arena(Schedule& plan);

}  // namespace tessera::schedule

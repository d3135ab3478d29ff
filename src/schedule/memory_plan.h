// SPDX-License-Identifier: Apache-2.0
// Chooses offsets for buffers with known lifetimes (interval coloring).
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

struct BufferLife {
  std::int64_t bytes = 0;
  std::int32_t first = 0;  // in steps, both inclusive
  std::int32_t last = 0;
  std::int64_t alignment = kBufferAlignment;
};
struct ArenaOffsets {
  std::vector<std::int64_t> offsets;  // multiples of kBufferAlignment
  std::int64_t total = 0;
};

/// Buffers that share a step never overlap in memory. Uses the best of several orders: large buffers first, or
/// approximately so, each in the smallest gap; with very many buffers, in order of time.
ArenaOffsets place_buffers(const std::vector<BufferLife>& lives);
/// Assigns offsets to the buffers of the arena and of the file.
void place_in_memory(Schedule& plan);

}  // namespace tessera::schedule

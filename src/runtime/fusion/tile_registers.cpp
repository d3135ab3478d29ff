// SPDX-License-Identifier: Apache-2.0
#include "fusion/tile_registers.h"

#include <algorithm>

#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostElements = 4096;  // in a tile
constexpr std::int64_t kLine = 64;            // bytes of a cache line

bool has_long_rows(const TileProgram& tile) { return tile.columns > kMostElements; }

// Aligns tiles to the rows of a broadcast operand, so that they can read it in place.
void align_to_rows(TileProgram& tile) {
  std::int64_t row = 0;
  for (const TileLoad& load : tile.loads)
    if (load.input >= 0 && load.dims.size() > 1 && load.strides.back() == 1) row = std::max(row, load.dims.back());
  if (row < 2 * kLine || row % kLine != 0) return;
  if (row <= tile.tile) {
    tile.tile = row;
  } else {  // the largest part that divides the row
    std::int64_t parts = ceil_div(row, tile.tile);
    while (row % (parts * kLine) != 0 && row / parts > 2 * kLine) ++parts;
    if (row % (parts * kLine) == 0) tile.tile = row / parts;
  }
}

}  // namespace

std::int64_t TileRegisters::take(const TileProgram& tile, std::int64_t bytes, bool per_row, bool forever) {
  auto& free = free_[{bytes, per_row}];
  if (!forever && !free.empty() && !has_long_rows(tile)) {  // for long rows phases change the order of steps
    const std::int64_t index = free.back();
    free.pop_back();
    return index;
  }
  bytes_.push_back(per_row ? bytes : bytes * tile.columns);
  return isize(bytes_) - 1;
}

// Chooses as many elements as fit in the cache, in complete cache lines or rows, up to a limit.
void TileRegisters::place(TileProgram& tile) const {
  constexpr std::int64_t kCache = 1 << 15;  // of the first level, leaving room for the data read and written in place
  if (has_long_rows(tile)) return place_long_rows(tile);
  std::int64_t bytes = 0;
  for (const std::int64_t one : bytes_) bytes += one;
  if (tile.columns > 1) {
    tile.tile =
        std::max<std::int64_t>(1, std::min(kMostElements / tile.columns, kCache / std::max<std::int64_t>(1, bytes)));
  } else {
    tile.tile = bytes == 0 ? kMostElements : std::min(kMostElements, kCache / bytes);
    tile.tile = std::max<std::int64_t>(kLine, tile.tile / kLine * kLine);
    align_to_rows(tile);
  }
  std::int64_t offset = 0;
  for (const std::int64_t one : bytes_) {
    tile.register_offsets.push_back(offset);
    offset += ceil_div(one * tile.tile, kLine) * kLine;
  }
  tile.workspace_bytes = offset;
}

// Registers that only one phase uses hold a piece of a row. Registers that later phases read hold the complete row.
void TileRegisters::place_long_rows(TileProgram& tile) const {
  assign_phases(tile);
  constexpr std::int64_t kCache = 1 << 16;
  constexpr std::int64_t kFewest = 512;
  std::int64_t bytes = 1;
  for (const TileSlot& slot : tile.slots)
    if (slot.register_index >= 0 && !slot.per_row && !slot.is_full_row) bytes += slot.element_bytes;
  tile.tile = 1;
  tile.piece = std::clamp(kCache / bytes / kLine * kLine, kFewest, kMostElements);
  tile.register_offsets.assign(bytes_.size(), 0);
  std::int64_t offset = 0;
  for (const TileSlot& slot : tile.slots) {
    if (slot.register_index < 0) continue;
    at(tile.register_offsets, slot.register_index) = offset;
    const std::int64_t count = slot.per_row ? 1 : slot.is_full_row ? tile.columns : tile.piece;
    offset += ceil_div(count * slot.element_bytes, kLine) * kLine;
  }
  tile.workspace_bytes = offset;
}

}  // namespace tessera

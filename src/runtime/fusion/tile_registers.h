// SPDX-License-Identifier: Apache-2.0
// The registers of a tile program while it is built: pieces of the workspace that hold one tile of a value each.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "fusion/tile_program.h"

namespace tessera {

class TileRegisters {
 public:
  /// One for elements of `bytes`; `forever`: of its own, never one that was given back.
  std::int64_t take(const TileProgram& tile, std::int64_t bytes, bool per_row, bool forever);
  void give_back(const TileSlot& slot) { free_[{slot.element_bytes, slot.per_row}].push_back(slot.register_index); }
  /// Chooses the size of a tile and gives every register its place in the workspace. The program must be whole.
  void place(TileProgram& tile) const;

 private:
  void place_long_rows(TileProgram& tile) const;

  std::map<std::pair<std::int64_t, bool>, std::vector<std::int64_t>> free_;  // by element bytes, per row
  std::vector<std::int64_t> bytes_;                                          // of each register, for each row
};

}  // namespace tessera

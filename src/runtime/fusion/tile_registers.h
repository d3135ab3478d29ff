// SPDX-License-Identifier: Apache-2.0
// The registers of a tile program during its construction. Each is a piece of the workspace that holds one tile of a
// value.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "fusion/tile_program.h"

namespace tessera {

class TileRegisters {
 public:
  /// Returns a register for elements of `bytes`. With `forever` it is a new one that is never shared.
  std::int64_t take(const TileProgram& tile, std::int64_t bytes, bool per_row, bool forever);
  void give_back(const TileSlot& slot) { free_[{slot.element_bytes, slot.per_row}].push_back(slot.register_index); }
  /// Chooses the size of a tile and the position of every register in the workspace. The program must be complete.
  void place(TileProgram& tile) const;

 private:
  void place_long_rows(TileProgram& tile) const;

  std::map<std::pair<std::int64_t, bool>, std::vector<std::int64_t>> free_;  // by element bytes and per_row
  std::vector<std::int64_t> bytes_;                                          // of each register, for each row
};

}  // namespace tessera

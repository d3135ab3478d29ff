// SPDX-License-Identifier: Apache-2.0
// A fused group as it runs: for every tile of elements, a list of steps over pointers. Slots are those pointers: an array read or
// written in place of its buffer, or a register, a piece of the workspace that holds one tile. A group with reductions goes over whole rows:
// next to its elements, `columns` a row, stand values with one element per row, which reductions make and steps spread over rows.
// Rows too long for the first-level cache are gone over once per phase, piece by piece: what reads a reduction's result, spread, is a phase
// later than the reduction.
#pragma once

#include <functional>
#include <memory>

#include "kernels/kernel.h"
#include "kernels/simd/kernel_set.h"

namespace tessera {

/// What fills a register at the start of a tile.
struct TileLoad {
  int slot = -1;
  bool per_row = false;                      // one element a row
  std::uint64_t phases = ~std::uint64_t{0};  // of long rows: those that read it, a bit each
  int input = -1;                            // of the kernel's inputs; -1: an iota
  std::int64_t element_bytes = 4;
  // Merged dims of the view: sizes and strides in elements, and the offset of its first element.
  Dims dims;
  Dims strides;
  std::int64_t offset = 0;
  kernels::FillFunction fill = nullptr;
  // iota: the value of element i is (i / inner) % size.
  DType dtype = DType::kS32;
  std::int64_t inner = 1;
  std::int64_t size = 1;
  kernels::CountUpFunction count_up = nullptr;  // for an inner of 1, where the type has one
  bool is_splat = false;                        // the same element everywhere: filled once
};

/// Of the kernel's input as a view shows it.
TileLoad load_of(const View& view, int input, std::int64_t element_bytes);

struct TileStep {
  enum class Kind : std::uint8_t {
    kFunction,   // one of the precompiled ones
    kMove,       // bytes of in[0]
    kSpread,     // each element of in[0] over a row
    kReduce,     // each row of in[0] to one element, from the scalar in[1] on
    kRounds,     // of a counter-based generator, on counters in[0] (low) and in[1] (high)
    kReference,  // an elementwise row's own evaluation
  };
  Kind kind = Kind::kFunction;
  bool per_row = false;  // over one element a row
  int phase = 0;         // of long rows; steps per row run at the end of theirs
  kernels::TileFunction function = nullptr;
  int out = -1;  // slots
  int in[3] = {-1, -1, -1};
  int in_count = 0;
  std::int64_t element_bytes = 0;  // kMove, kSpread
  kernels::FillFunction spread = nullptr;
  kernels::ReduceRowFunction reduce = nullptr;
  DType dtype = DType::kF32;  // of what is reduced
  bool is_extremum = false;
  kernels::PhiloxFunction rounds = nullptr;
  std::vector<int> keys;  // slots, one a round, each a single element
  std::uint32_t multiplier = 0;
  std::shared_ptr<const OpView> reference;
};

struct TileSlot {
  int input = -1;   // the kernel's input, or
  int output = -1;  // output that it is read from or written to; neither: a register
  bool per_row = false;
  bool is_whole = false;           // a register that holds all of a long row, because later phases read it
  std::int64_t element_bytes = 4;  // 0: a single element, the same for every tile
  std::int64_t offset_bytes = 0;   // of its first element
  std::int64_t register_index = -1;
};

/// What a run works with, kept by the program's owner so that the next run allocates nothing.
struct TileScratch {
  std::vector<std::byte*> starts;    // by slot
  std::vector<std::byte*> pointers;  // by slot: of the tile
  std::vector<std::int64_t> steps;   // by slot: bytes per element
  std::vector<std::uint32_t> keys;
  struct Total {
    alignas(8) std::byte bytes[8];
  };
  std::vector<Total> totals;  // by step, of long rows
  // An array that tiles go over; of what comes next, from where to where it is still to be fetched. In bytes.
  struct Stream {
    const std::byte* start;
    std::int64_t element;
    std::int64_t end;
    std::int64_t next;
    std::int64_t until;
  };
  std::vector<Stream> streams;
};

struct TileProgram {
  std::int64_t columns = 1;
  std::int64_t rows = 0;   // without reductions: rows of one element each
  std::int64_t tile = 0;   // rows; of long ones 1
  std::int64_t piece = 0;  // elements of a long row; 0: rows are not long
  int phases = 1;
  std::uint64_t busy_phases = ~std::uint64_t{0};  // those that go over the elements
  std::vector<std::int64_t> register_offsets;     // in the workspace
  std::int64_t workspace_bytes = 0;
  std::vector<int> overwritten;  // per output: the input in the same buffer, or -1
  std::vector<TileSlot> slots;
  std::vector<TileLoad> loads;
  std::vector<TileStep> steps;
  void run(const KernelArgs& args, TileScratch& scratch) const;
};

/// Gives every step of long rows its phase, and marks the registers that later phases read.
void assign_phases(TileProgram& program);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// An executable fused group: a list of steps over pointers for every tile of elements. The pointers are called slots:
// an array that is read or written in place in its buffer, or a register, which is a piece of the workspace that holds
// one tile. A group with reductions processes complete rows. In addition to arrays with `columns` elements per row, it
// has values with one element per row, which reductions produce and other steps spread over the rows. Rows too long for
// the first-level cache are processed piece by piece, once for each phase: a step that reads the spread result of a
// reduction is one phase later than the reduction.
#pragma once

#include <functional>
#include <memory>

#include "kernels/kernel.h"
#include "kernels/simd/kernel_set.h"

namespace tessera {

/// Fills a register at the start of a tile.
struct TileLoad {
  int slot = -1;
  bool per_row = false;                      // one element per row
  std::uint64_t phases = ~std::uint64_t{0};  // for long rows: the phases that read it, one bit each
  int input = -1;                            // number of the kernel's input; -1: an iota
  std::int64_t element_bytes = 4;
  // The merged dims of the view: sizes, strides and the offset of the first element, in elements.
  Dims dims;
  Dims strides;
  std::int64_t offset = 0;
  kernels::FillFunction fill = nullptr;
  // iota: the value of element i is (i / inner) % size.
  DType dtype = DType::kS32;
  std::int64_t inner = 1;
  std::int64_t size = 1;
  kernels::CountUpFunction count_up = nullptr;  // if inner is 1 and the type has such a function
  bool is_splat = false;                        // all elements are equal: filled once
};

/// Returns the load of a kernel's input through a view.
TileLoad load_of(const View& view, int input, std::int64_t element_bytes);

struct TileStep {
  enum class Kind : std::uint8_t {
    kFunction,   // a precompiled function
    kMove,       // copies in[0]
    kSpread,     // repeats each element of in[0] over a row
    kReduce,     // reduces each row of in[0] to one element; the scalar in[1] is the initial value
    kRounds,     // rounds of a counter-based generator, on counters in[0] (low) and in[1] (high)
    kReference,  // the reference evaluation of an elementwise op
  };
  Kind kind = Kind::kFunction;
  bool per_row = false;  // over one element per row
  int phase = 0;         // for long rows; steps with per_row run at the end of their phase
  kernels::TileFunction function = nullptr;
  int out = -1;  // slots
  int in[3] = {-1, -1, -1};
  int in_count = 0;
  std::int64_t element_bytes = 0;  // kMove, kSpread
  kernels::FillFunction spread = nullptr;
  kernels::ReduceRowFunction reduce = nullptr;
  DType dtype = DType::kF32;  // element type of the reduction
  bool is_extremum = false;
  kernels::PhiloxFunction rounds = nullptr;
  std::vector<int> keys;  // slots, one for each round, each with a single element
  std::uint32_t multiplier = 0;
  std::shared_ptr<const OpView> reference;
};

struct TileSlot {
  int input = -1;   // number of the kernel's input,
  int output = -1;  // or of the output that is read or written; neither: a register
  bool per_row = false;
  bool is_full_row = false;        // a register with all of a long row, because later phases read it
  std::int64_t element_bytes = 4;  // 0: a single element, the same for every tile
  std::int64_t offset_bytes = 0;   // of the first element
  std::int64_t register_index = -1;
};

/// The temporary data of a run, kept between runs to avoid allocations.
struct TileScratch {
  std::vector<std::byte*> starts;    // by slot
  std::vector<std::byte*> pointers;  // by slot, in the current tile
  std::vector<std::int64_t> steps;   // by slot: bytes per element
  std::vector<std::uint32_t> keys;
  struct Total {
    alignas(8) std::byte bytes[8];
  };
  std::vector<Total> totals;  // by step, for long rows
  // An array that the tiles traverse, and the range [next, until) of it that remains to be fetched. In bytes.
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
  std::int64_t tile = 0;   // number of rows; 1 for long rows
  std::int64_t piece = 0;  // elements of a long row; 0: rows are not long
  int phases = 1;
  std::uint64_t busy_phases = ~std::uint64_t{0};  // those that traverse the elements
  std::vector<std::int64_t> register_offsets;     // in the workspace
  std::int64_t workspace_bytes = 0;
  std::vector<int> overwritten;  // for each output: the input in the same buffer, or -1
  std::vector<TileSlot> slots;
  std::vector<TileLoad> loads;
  std::vector<TileStep> steps;
  void run(const KernelArgs& args, TileScratch& scratch) const;
};

/// Assigns a phase to every step on long rows, and marks the registers that later phases read.
void assign_phases(TileProgram& program);

}  // namespace tessera

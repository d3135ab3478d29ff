// SPDX-License-Identifier: Apache-2.0
// A fused group as it runs: for every tile of elements, a list of steps over pointers. Slots are those pointers: an array read or
// written in place of its buffer, or a register, a piece of the workspace that holds one tile.
#pragma once

#include <functional>
#include <memory>

#include "kernel.h"
#include "kernels/kernel_set.h"

namespace tessera {

/// What fills a register at the start of a tile.
struct TileLoad {
  int slot = -1;
  int input = -1;  // of the kernel's inputs; -1: an iota
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
  [[nodiscard]] bool is_splat() const;  // the same element everywhere: filled once
};

struct TileStep {
  kernels::TileFunction function = nullptr;
  int out = -1;  // slots
  int in[3] = {-1, -1, -1};
  int in_count = 0;
  std::int64_t move_bytes = 0;  // without a function: bytes per element to move from in[0]
  /// Without either: an elementwise row's own evaluation, on tiles.
  std::shared_ptr<const OpView> reference;
};

struct TileSlot {
  int input = -1;   // the kernel's input, or
  int output = -1;  // output that it is read from or written to; neither: a register
  std::int64_t element_bytes = 4;
  std::int64_t register_index = -1;
};

struct TileProgram {
  std::int64_t element_count = 0;
  std::int64_t tile = 0;                       // elements
  std::vector<std::int64_t> register_offsets;  // in the workspace
  std::int64_t workspace_bytes = 0;
  std::vector<TileSlot> slots;
  std::vector<TileLoad> loads;
  std::vector<TileStep> steps;
  void run(const KernelArgs& args) const;
};

}  // namespace tessera

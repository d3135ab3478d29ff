// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint in pieces of bounded size, for tools that process one after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "files/pieces.h"
#include "tessera/checkpoint/regions.h"

namespace tessera {

/// A block has at most this many bytes.
inline constexpr std::int64_t kMostBlockBytes = 4 << 20;

/// Divides a region into blocks of at most kMostBlockBytes, and calls `use` with each of them, in row-major order: the
/// elements of all blocks one after the other are those of the region.
void for_each_block(const Region& region, DType dtype, const std::function<void(const Region&)>& use);
/// Reads the elements of a region of a tensor of the given type. The region has at most kMostBlockBytes.
std::vector<std::byte> read_region(const std::vector<Piece>& pieces, const Type& type, const Region& region);

}  // namespace tessera

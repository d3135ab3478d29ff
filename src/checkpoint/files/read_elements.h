// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/random_access.h"
#include "tessera/tensor/dtype.h"

namespace tessera {

/// Fills `into` with elements of type `to`: those from number `first` of an array that the file holds from byte `offset`
/// on as elements of type `stored`. Both types are equal, or both are floats.
void read_elements(const ByteSource& file, std::uint64_t offset, std::int64_t first, DType stored, DType to,
                   std::span<std::byte> into);

/// A hash of the array of `bytes` bytes from byte `offset` on, for read_when_needed(). It differs for other weights,
/// although a rank reads only its shards of them: small arrays are hashed completely, and of a large one a 256th, at most
/// 64 KiB. 0 if there is one rank, which compares nothing.
std::uint64_t content_of_array(const ByteSource& file, std::uint64_t offset, std::uint64_t bytes);

}  // namespace tessera

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

}  // namespace tessera

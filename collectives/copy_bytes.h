// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>

namespace tessera::collectives {

inline constexpr std::size_t kCacheLine = 64;
/// The largest array, in bytes, of which every member of an all-reduce reduces all elements, in one step instead of
/// two.
inline constexpr std::size_t kSmallAllReduce = 16384;

/// Copies bytes, unless there are none or both buffers are the same.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace tessera::collectives

// SPDX-License-Identifier: Apache-2.0
// Random numbers that are equal on every machine.
#pragma once

#include <cstdint>

#include "tessera/base/text.h"

namespace tessera::data {

// Splitmix64. std::shuffle and the distributions are not used, because they differ between standard libraries.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::int64_t number) : state_(hash_mix(seed, static_cast<std::size_t>(number))) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }
  // Returns a uniform number in [0, bound). Draws below `unfair` are repeated, because they would make small numbers
  // more likely.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t unfair = -bound % bound;  // 2^64 mod bound
    std::uint64_t x = next();
    while (x < unfair) x = next();
    return x % bound;
  }
  // Returns a uniform number in [0, 1).
  double fraction() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace tessera::data

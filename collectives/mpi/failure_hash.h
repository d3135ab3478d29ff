// SPDX-License-Identifier: Apache-2.0
// Which ranks fail with the same message, so that one of them prints it for all.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::collectives {

/// A hash of the message with which a rank fails; never 0. The upper half ignores all numbers, such as the bytes in use
/// and the number of the rank. The lower half ignores only the numbers in `rank N`: a rank may name itself or another one.
std::uint64_t failure_hash(std::string_view message);
/// Whether two messages are equal without their numbers.
inline bool is_same_failure(std::uint64_t a, std::uint64_t b) { return a >> 32U == b >> 32U; }

}  // namespace tessera::collectives

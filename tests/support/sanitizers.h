// SPDX-License-Identifier: Apache-2.0
// Under a sanitizer each case takes 10 to 30 times as long. Therefore tests with many random cases run only the first
// ones.
#pragma once

namespace tessera::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSanitizedShare = 4;
#else
inline constexpr int kSanitizedShare = 1;
#endif
/// Returns how many of `count` cases to run.
constexpr int cases_here(int count) { return (count + kSanitizedShare - 1) / kSanitizedShare; }

}  // namespace tessera::testing

// SPDX-License-Identifier: Apache-2.0
// Tests of many random cases run fewer of them under a sanitizer, where each takes 10 to 30 times as long: the first ones.
#pragma once

namespace tessera::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSanitizedShare = 4;
#else
inline constexpr int kSanitizedShare = 1;
#endif
/// The number of cases out of so many.
constexpr int cases_here(int count) { return (count + kSanitizedShare - 1) / kSanitizedShare; }

}  // namespace tessera::testing

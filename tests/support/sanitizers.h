// SPDX-License-Identifier: Apache-2.0
// Under a sanitizer each case takes 10 to 30 times as long. Therefore tests with many random cases run only the first
// ones.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
inline constexpr int kSanitizedShare = kIsSanitized ? 6 : 1;
/// Returns how many of `count` cases to run.
constexpr int cases_here(int count) { return (count + kSanitizedShare - 1) / kSanitizedShare; }

/// Returns `cases`, or under a sanitizer every sixth one, for INSTANTIATE_TEST_SUITE_P.
template <class T>
std::vector<T> cases_of(const std::vector<T>& cases) {
  std::vector<T> out;
  for (std::size_t i = 0; i < cases.size(); i += kSanitizedShare) out.push_back(cases[i]);
  return out;
}

}  // namespace tessera::testing

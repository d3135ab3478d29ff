// SPDX-License-Identifier: Apache-2.0
// The requirements of every implementation of ProcessGroup. Each case runs on all ranks of `world` concurrently. The
// expectations hold on every rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/collectives/process_group.h"

namespace tessera::testing {

struct SemanticsCase {
  const char* name;
  std::function<void(ProcessGroup& world)> run;
};
const std::vector<SemanticsCase>& semantics_cases();
std::vector<SemanticsCase> reduction_cases();  // part of semantics_cases()
/// Set by tests in which payload is sent in chunks, so that large sizes use several chunks.
inline bool uses_large_payloads = false;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace tessera::testing

// SPDX-License-Identifier: Apache-2.0
// Tests that check a sample of their cases, or all of them in the ctest entries with the label `long`.
#pragma once

#include <cstdlib>

namespace tessera::testing {

/// True if the test shall check all of its cases.
inline bool long_tests() { return std::getenv("TESSERA_LONG_TESTS") != nullptr; }

}  // namespace tessera::testing

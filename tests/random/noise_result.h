// SPDX-License-Identifier: Apache-2.0
// A random program with one more result that no two orders of its sums agree on.
#pragma once

#include <optional>

#include "tessera/ir/program.h"

namespace tessera::testing {

/// The program with q = n / (|n| + 1e-30) behind its results, where n = sum(3 y) - 3 sum(y) of a float result y is 0 but for roundings.
/// Null when no result is f32 of several elements.
std::optional<Program> with_noise_result(const Program& program);

}  // namespace tessera::testing

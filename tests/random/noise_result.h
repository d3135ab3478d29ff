// SPDX-License-Identifier: Apache-2.0
// A random program with an additional result that depends on the order of its sums.
#pragma once

#include <optional>

#include "tessera/ir/program.h"

namespace tessera::testing {

/// Appends q = n / (|n| + 1e-30) to the results, where n = sum(3 y) - 3 sum(y) for a float result y is 0 except for
/// rounding errors. Returns nothing if no result is f32 with several elements.
std::optional<Program> with_noise_result(const Program& program);

}  // namespace tessera::testing

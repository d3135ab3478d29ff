// SPDX-License-Identifier: Apache-2.0
// A proof about the computation of a reduction.
#pragma once

#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// True if f(init, x) = f(x, init) for all x, where f reduces n arrays: 2n scalars in, n out. The proof analyzes the
/// instructions of f for each possible order of the elements of x and init. It ignores the sign of zeros. False if
/// there is no proof.
///
/// Assumption: no element is NaN. If f propagates NaN from one side only, its result is undefined in any case, because
/// the order of a reduction is undefined. If f propagates NaN from both sides, f(init, x) = f(x, init) holds.
bool commutes_with_init(const Computation& function, const std::vector<Literal>& inits);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// A proof about the computation of a reduction.
#pragma once

#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Whether f(init, x) = f(x, init) for all x, where f reduces n arrays: 2n scalars in, n out. Proven from the instructions of f, for each
/// way in which the elements of x may compare with those of the init, up to the sign of zeros. False where there is no proof.
///
/// Assumed: no element is NaN. An f that hands NaN on from one side only has no defined result anyway, because the order of a reduction is
/// not defined; of an f that hands it on from both sides the claim holds.
bool commutes_with_init(const Computation& function, const std::vector<Literal>& inits);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// How the bodies of loops pass their elements on.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera::autodiff {

/// Returns true for a get-tuple-element of an instruction `tuple`.
bool reads_tuple(const Computation& computation, const Instruction& instruction);
/// Returns the element that such an instruction reads.
Id element_read(const Computation& computation, const Instruction& instruction);
/// Returns true if the body of a loop, whose root is a tuple, passes element e of its parameter on.
bool passes_on(const Computation& body, int e);

}  // namespace tessera::autodiff

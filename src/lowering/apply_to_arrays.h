// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// Computes instructions of a computation on scalars for all elements of arrays. The instructions that `roots` depend on
/// must be parameters, constants and elementwise ops. `arguments` have the number of the parameter and equal dims;
/// arguments that no root depends on may be null.
std::vector<Value> apply_to_arrays(Builder& into, const Computation& scalars, const std::vector<Id>& roots,
                                   const std::vector<Value>& arguments, const Dims& dims, const NotesRef& notes = {});

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Deferred variables get their values at the first use, all variables of a step in one program. These functions give them
// values earlier, a few at a time.
#pragma once

#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// True if the variable has no value yet: its initializer, or the reader of a file, runs at the first use.
bool is_deferred(const Tensor& variable);

/// Gives those of `variables` that are deferred their values, in one program. Each rank computes its shards only. The
/// values depend on the seed and on the order in which the variables were made, not on the mesh or on this call.
/// Collective if there are any. While this rank only plans, there are no values and nothing happens.
void initialize(const std::vector<Tensor>& variables);

}  // namespace tessera

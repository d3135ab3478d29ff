// SPDX-License-Identifier: Apache-2.0
// A deferred variable gets its value when it is first used. One program then computes the values of all deferred
// variables of the step. initialize() gives variables their values earlier, a few at a time.
#pragma once

#include <source_location>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// True if the variable has no value yet: its initializer, or the reader of a file, runs at the first use.
bool is_deferred(const Tensor& variable);

/// Computes the values of the deferred variables in `variables`, in one program. Each rank computes only its shards.
/// The values depend on the seed and on the order in which the variables were created, but not on the mesh or on this
/// call. Collective if a variable is deferred. Has no effect if this rank only plans (plan_for_devices()).
void initialize(const std::vector<Tensor>& variables);

/// Converts the variable, and all its copies, to the element type `dtype`. A deferred variable stays deferred. Error
/// if the variable has a gradient or the state of an optimizer, or belongs to an FSDP unit.
void convert_variable(const Tensor& variable, DType dtype,
                      std::source_location where = std::source_location::current());

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// How gradients are stored. Over the axes that the rows of a step's inputs lie over, a gradient is a sum; stored in parts over them it is
// reduce-scattered, its update is computed once (and not by every device), and the new weights are gathered: together the
// bytes of an all-reduce. (Known as ZeRO stage 2, and as automatic weight-update sharding: Xu et al., arXiv:2004.13336.)
#pragma once

#include <optional>
#include <vector>

#include "tessera/frontend/tracing/trace.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// The shardings of the trace's inputs that are cut along dim 0, without those of variables that want gradients.
std::vector<Sharding> row_shardings(const Trace& trace);

/// The variable's own sharding, and over it, on the dim that divides best, the axes of `rows` that it does not use. The variable's own
/// alone (none: whole) where no dim has an element for each of the devices.
std::optional<Sharding> gradient_storage(const Node& variable, const std::vector<Sharding>& rows);

/// The gradient in that storage. Behind a barrier: how weights lie shall not decide how activations do.
Value lay_out_gradient(Builder& builder, Value gradient, const Sharding& storage);

}  // namespace tessera

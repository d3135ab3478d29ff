// SPDX-License-Identifier: Apache-2.0
// The storage of gradients. A gradient is a sum over the axes that shard the rows of a step's inputs. If it is stored
// sharded over these axes, it is reduce-scattered, each device computes only its part of the update, and the new
// weights are all-gathered. Together this transfers the bytes of one all-reduce. (This is ZeRO stage 2, or automatic
// weight-update sharding: Xu et al., arXiv:2004.13336.)
#pragma once

#include <optional>
#include <vector>

#include "tessera/frontend/tracing/inner.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// Returns the shardings of the trace's inputs that are sharded along dim 0, except variables that require gradients.
std::vector<Sharding> row_shardings(const Trace& trace);

/// Returns the sharding of the variable, with the axes of `rows` that it does not use added to the dim that divides
/// best; not to dim 0 of a stack. If no dim has an element for each device, returns the sharding of the variable (none:
/// replicated).
std::optional<Sharding> gradient_storage(const Node& variable, const std::vector<Sharding>& rows, bool is_stack);

/// Returns the sharding of a gradient that is not reduced over the axes of `rows`: partial over them, and otherwise the
/// sharding in which ops use the variable.
std::optional<Sharding> unreduced_storage(const TensorImpl& variable, const std::vector<Sharding>& rows);

/// Sets gradient_storage of the variable, from its rules. `rows`: row_shardings().
void set_gradient_storage(TensorImpl& variable, const std::vector<Sharding>& rows);

/// Returns the gradient in this storage. `name`: of the variable, for reports. A sharding barrier keeps the shardings of weights from influencing those of
/// activations.
Value lay_out_gradient(Builder& builder, Value gradient, const Sharding& storage, const std::string& name);

}  // namespace tessera

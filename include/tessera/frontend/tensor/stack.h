// SPDX-License-Identifier: Apache-2.0
// Stacks of variables: the variables of equal modules, stored as one array with a new dim 0. A loop over the modules
// then reads one element of the stack in each iteration, and an optimizer updates all of them as one variable. A state
// dict has one entry for each variable of a stack, which is a view of the stack. In its name, the number of the
// variable replaces `each`: the stack `h.each.attn.weight` has the entry `h.3.attn.weight`. Files therefore do not
// depend on stacking.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/frontend/tensor/state_dict.h"

namespace tessera {

/// The part of a name that the number of a variable of a stack replaces.
inline constexpr std::string_view kEachOfStack = "each";

/// Turns a new variable into a stack of `count` variables of its type. The initializer computes the complete stack.
/// Error if the variable has a value, a sharding or optimizer state already.
void make_stack(const Tensor& variable, std::int64_t count);
/// The number of variables in a stack; 0 for other variables.
std::int64_t stack_count(const Tensor& variable);
/// The entries of a state dict for a stack: one view for each variable.
std::vector<NamedTensor> stack_entries(const NamedTensor& stack);

}  // namespace tessera

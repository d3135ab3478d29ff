// SPDX-License-Identifier: Apache-2.0
// Replaces ops that depend on layouts or hold tuples by ops that do not. Programs that are partitioned and compiled
// contain only the latter.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// False for all ops except bitcasts and tuple constants.
[[nodiscard]] bool may_have_plain_form(const Instruction& instruction);
/// Emits the plain form of an instruction: transposes and a reshape for a bitcast, and a tuple of constants for a tuple
/// constant. Nullopt for other ops, and for a bitcast of elements that are narrower than a byte (s4).
std::optional<Value> plain_form(Builder& builder, const OpView& view, const std::vector<Value>& operands);

}  // namespace tessera

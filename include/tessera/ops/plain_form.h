// SPDX-License-Identifier: Apache-2.0
// Replaces ops that depend on layouts or hold tuples by ops that do not. Programs that are partitioned and compiled
// contain only the latter.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// plain_form() computes a bitcast by transposes and a reshape, and a tuple constant by a tuple of constants. Null for
/// a bitcast of elements narrower than a byte (s4), and for all other ops, for which may_have_plain_form() is false.
[[nodiscard]] bool may_have_plain_form(const Instruction& instruction);
std::optional<Value> plain_form(Builder& builder, const OpView& view, const std::vector<Value>& operands);

}  // namespace tessera

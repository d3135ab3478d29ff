// SPDX-License-Identifier: Apache-2.0
// Ops that look at layouts or hold tuples, in ops that do not: what is partitioned and compiled has no others.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// The same value by other ops: a bitcast as the transposes and the reshape that it is, a tuple constant as a tuple of constants. Null for
/// all others, and for a bitcast of elements that have no bits of their own (a byte holds s4).
[[nodiscard]] bool may_have_plain_form(const Instruction& instruction);
std::optional<Value> plain_form(Builder& builder, const OpView& view, const std::vector<Value>& operands);

}  // namespace tessera

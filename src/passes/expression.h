// SPDX-License-Identifier: Apache-2.0
// Values that any place can make for itself: a scalar constant, a broadcast one, an iota.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// Instructions whose operands are places in the list; the last is the value.
using Expression = std::vector<Instruction>;

/// None when the value is no such.
std::optional<Expression> expression_of(const Computation& computation, Id id);
bool same_expression(const Expression& a, const Expression& b);
Value made_in(Builder& builder, const Expression& expression);

}  // namespace tessera

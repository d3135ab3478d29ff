// SPDX-License-Identifier: Apache-2.0
// Values that can be recomputed anywhere: a constant scalar, its broadcast, an iota.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// Instructions whose operands are indices into the list. The last instruction is the value.
using Expression = std::vector<Instruction>;

/// Returns nothing if the value is not of this kind.
std::optional<Expression> expression_of(const Computation& computation, Id id);
bool same_expression(const Expression& a, const Expression& b);
Value made_in(Builder& builder, const Expression& expression);

}  // namespace tessera

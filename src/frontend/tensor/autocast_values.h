// SPDX-License-Identifier: Apache-2.0
// The operands of functions, converted as the innermost Autocast scope requires.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// The value of an operand of `function`.
Value autocast_value(std::string_view function, const Operand& operand);
/// Converts values to the widest of their types, in an Autocast scope.
void widen_in_autocast(std::vector<Value>& values);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Checks and texts about ops and operands that builder, reader and verifier share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/ir/op_def.h"

namespace tessera {

/// Throws an Error unless the op takes this many operands.
void check_arity(const OpDef& op, int count);
/// The number in parameter(..).
std::int64_t parameter_number(const Instruction& parameter);
/// `  lhs  %x: f32[128,64] {data,-}    train.cpp:40`, one line per operand.
std::vector<std::string> operand_lines(const std::vector<const Instruction*>& operands);
/// Throws an Error unless there is one sharding per leaf of the type, each on a mesh, with one entry per dim and no
/// axis used twice.
void check_shardings(const Type& type, const Shardings& leaves);

}  // namespace tessera

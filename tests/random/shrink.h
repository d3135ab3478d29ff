// SPDX-License-Identifier: Apache-2.0
// Shrinks a failing program.
#pragma once

#include <functional>

#include "tessera/ir/program.h"

namespace tessera::testing {

/// Returns a program for which `fails` still holds, with as few instructions and annotations as single steps can reach:
/// parameters replace values, operands replace results, results and annotations are removed, also in called
/// computations.
Program shrink(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace tessera::testing

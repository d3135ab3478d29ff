// SPDX-License-Identifier: Apache-2.0
// A failing program made small.
#pragma once

#include <functional>

#include "tessera/ir/program.h"

namespace tessera::testing {

/// A program for which `fails` still holds, with as few instructions and annotations as single steps lead to: parameters in place of
/// values, operands in place of results, fewer results, no annotation, called computations likewise.
Program shrink(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace tessera::testing

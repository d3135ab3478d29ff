// SPDX-License-Identifier: Apache-2.0
// Evaluates the unpartitioned program, including programs with manual regions.
#pragma once

#include <vector>

#include "tessera/ir/program.h"
#include "tessera/ops/evaluate.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// A program with (normalized) manual regions runs on all devices, each with all arguments complete. Returns one result
/// for all devices, or one per device if they differ.
std::vector<Literal> evaluate_global(const Program& program, const std::vector<Literal>& arguments,
                                     const EvaluateOptions& options);

}  // namespace tessera

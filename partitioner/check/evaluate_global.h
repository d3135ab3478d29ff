// SPDX-License-Identifier: Apache-2.0
// Evaluates the unpartitioned program, also one with manual regions.
#pragma once

#include <vector>

#include "tessera/ir/program.h"
#include "tessera/ops/evaluate.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// A program with (normalized) manual regions runs on all devices, each of which has every argument whole. One result for all devices, or
/// one for each where they differ.
std::vector<Literal> evaluate_global(const Program& program, const std::vector<Literal>& arguments,
                                     const EvaluateOptions& options);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Evaluates the unpartitioned program, including programs with manual regions.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/ops/evaluate.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// A program with (normalized) manual regions runs on all devices, each with all arguments complete. Returns one result
/// for all devices, or one per device if they differ.
std::vector<Literal> evaluate_global(const Program& program, const std::vector<Literal>& arguments,
                                     const EvaluateOptions& options);

/// "result 0 differs between devices 0 and 2" if manual regions leave different values on the devices; else the empty
/// text. Results are global values, so they must be equal, up to 2^-10 of the largest element.
std::string unequal_results(const Program& program, const std::vector<Literal>& arguments,
                            const EvaluateOptions& options);

}  // namespace tessera

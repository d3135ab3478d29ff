// SPDX-License-Identifier: Apache-2.0
// The list of all ops. To add an op, write src/ops/<op>.cpp, declare its row in include/tessera/ops/rows.h, list the
// row in op_table.cpp, and add a sample to one of tests/conformance/op_samples_*.cpp.
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera {

/// Returns the table of all ops.
const OpTable& op_table();

}  // namespace tessera

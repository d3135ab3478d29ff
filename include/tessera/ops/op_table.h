// SPDX-License-Identifier: Apache-2.0
// The list of all ops. To add one: write src/ops/<op>.cpp, declare its row in include/tessera/ops/rows.h, list it in op_table.cpp, add a
// sample in tests/conformance/op_samples.cpp.
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera {

const OpTable& op_table();

}  // namespace tessera

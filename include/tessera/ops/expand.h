// SPDX-License-Identifier: Apache-2.0
// Ops in terms of smaller ones. An op that needs a dim whole, because it sums along it and uses the sum, can be cut there once it is
// spelled out: batch-norm-training over a batch that lies on several devices becomes two small all-reduces.
#pragma once

#include "tessera/ir/builder.h"
#include "tessera/ir/op_def.h"

namespace tessera {

/// Whether `expanded` has another form for the op.
bool is_expandable(const OpDef& op);
/// The same value of smaller ops, within rounding. Types of 16 bits are computed in f32.
Value expanded(const OpView& view, const std::vector<Value>& operands);

}  // namespace tessera

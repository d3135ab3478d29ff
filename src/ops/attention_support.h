// SPDX-License-Identifier: Apache-2.0
// The parts of the rows of attention: attention_evaluation.cpp has the reference evaluation, attention_in_hlo.cpp the
// same by ops of HLO.
#pragma once

#include <vector>

#include "tessera/ir/op_def.h"
#include "tessera/ops/attention.h"

namespace tessera {

/// The type of log-sum-exp and of sums.
DType attention_sum_type(DType dtype);
/// The optional operands of an instruction.
ops::AttentionOperands attention_options(const AttentionForm& form, const std::vector<Value>& operands);

namespace rows {

Literal evaluate_attention(const EvalContext& context);
Literal evaluate_attention_backward(const EvalContext& context);

Value attention_in_hlo(const OpView& view, const std::vector<Value>& operands);
Value attention_backward_in_hlo(const OpView& view, const std::vector<Value>& operands);
/// The gradient of an additive mask, from the operands of the forward op.
Value attention_mask_gradient(const AttentionForm& form, const std::vector<Value>& operands, Value d_output,
                              Value log_sum, Value delta);

}  // namespace rows
}  // namespace tessera

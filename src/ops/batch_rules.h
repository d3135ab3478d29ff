// SPDX-License-Identifier: Apache-2.0
// Functions for OpDef::batch: the forms of ops for several examples (tessera/ops/batching.h). Attributes that number
// dims count from 1, because dim 0 has the examples.
#pragma once

#include "tessera/ir/op_def.h"
#include "tessera/ops/batching.h"

namespace tessera::rows {

// ---- helpers --------------------------------------------------------------------------------------------------------

/// Operand i with the examples.
Value each_example(const BatchContext& context, int i);
std::vector<Value> all_examples(const BatchContext& context);
/// The op on these operands, with the type of the result for all examples.
Value emit_for_examples(const BatchContext& context, const std::vector<Value>& operands, Attributes attributes);
/// The dims, each of which is one further; with `first` in front of them.
Dims one_further(Dims dims);
Dims with_front(std::int64_t first, Dims dims);

// ---- rules ----------------------------------------------------------------------------------------------------------

/// The op has any number of leading dims, and its attributes do not number them: elementwise ops, fft, topk.
Value batch_same(BatchContext& context);
Value batch_broadcast(BatchContext& context);
Value batch_reshape(BatchContext& context);
Value batch_transpose(BatchContext& context);
Value batch_slice(BatchContext& context);
Value batch_pad(BatchContext& context);
/// Attributes are DimensionsAttributes: concatenate, reverse, map.
Value batch_dimensions(BatchContext& context);
Value batch_sort(BatchContext& context);
Value batch_reduce(BatchContext& context);
Value batch_reduce_window(BatchContext& context);
Value batch_select_and_scatter(BatchContext& context);
Value batch_dot(BatchContext& context);
Value batch_scaled_dot(BatchContext& context);
Value batch_batch_norm(BatchContext& context);
Value batch_convolution(BatchContext& context);
Value batch_attention(BatchContext& context);
Value batch_gather(BatchContext& context);
Value batch_scatter(BatchContext& context);
Value batch_dynamic_slice(BatchContext& context);
Value batch_dynamic_update_slice(BatchContext& context);

}  // namespace tessera::rows

// SPDX-License-Identifier: Apache-2.0
// Reading and writing one variable of a stack.
#pragma once

#include "tessera/frontend/tensor/state_dict.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera {

/// stored_shard() of a view.
StoredShard stored_row(const TensorImpl& view);
/// read_when_needed() of a view. The stack is read when it is needed; rows without a reader keep their values.
void read_row_when_needed(const TensorImpl& view, ShardReader reader, std::uint64_t content);
/// Gives one variable of the stack a new value.
void assign_row(const TensorImpl& view, const Tensor& value, const std::source_location& where);

}  // namespace tessera

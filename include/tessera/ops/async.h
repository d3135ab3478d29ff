// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations: x-start and x-done, with async-update between them.
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera {

enum class AsyncHalf : std::uint8_t { kNeither, kStart, kUpdate, kDone };
AsyncHalf async_half(const OpDef& op);
/// The synchronous op for a start and its done. For async-start it is a call of its computation.
const OpDef& synchronous_op(const OpDef& start);
/// The op that starts the synchronous op `whole`, which done_op completes: its native start (all-gather-start), or
/// async-start of a computation that contains it.
const OpDef& start_op(const OpDef& whole);
const OpDef& done_op(const OpDef& start);
/// The element of the start's value that its done returns; -1: the complete value.
int async_result(const OpDef& start);

}  // namespace tessera

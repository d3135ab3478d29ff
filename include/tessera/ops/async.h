// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations: x-start and x-done, with async-update between them.
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera {

enum class AsyncHalf : std::uint8_t { kNeither, kStart, kUpdate, kDone };
/// Whether the op starts, updates or completes an asynchronous operation; kNeither for other ops.
AsyncHalf async_half(const OpDef& op);
/// Returns the synchronous op that a start and its done replace. For async-start this is `call`.
const OpDef& synchronous_op(const OpDef& start);
/// Returns the op that starts the op `synchronous`: its own start op (all-gather-start) if there is one, else
/// async-start, which runs a computation that contains the op. done_op() returns the op that completes it.
const OpDef& start_op(const OpDef& synchronous);
const OpDef& done_op(const OpDef& start);
/// The element of the start's value that its done returns; -1: the complete value.
int async_result(const OpDef& start);

}  // namespace tessera

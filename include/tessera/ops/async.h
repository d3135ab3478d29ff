// SPDX-License-Identifier: Apache-2.0
// Operations in two halves: x-start, x-done (and async-update between them).
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera {

enum class AsyncHalf : std::uint8_t { kNeither, kStart, kUpdate, kDone };
AsyncHalf async_half(const OpDef& op);
/// The op that does at once what the start and its done do; call for async-start, of the computation it calls.
const OpDef& synchronous_op(const OpDef& start);
/// The op that starts `whole` and leaves waiting to done_op: its own (all-gather-start), or async-start of a computation that holds it.
const OpDef& start_op(const OpDef& whole);
const OpDef& done_op(const OpDef& start);
/// The element of the start's value that its done returns; -1: all of it.
int async_result(const OpDef& start);

}  // namespace tessera

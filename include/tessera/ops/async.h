// SPDX-License-Identifier: Apache-2.0
// Operations in two halves: x-start, x-done (and async-update between them).
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera {

enum class AsyncHalf : std::uint8_t { kNeither, kStart, kUpdate, kDone };
AsyncHalf async_half(const OpDef& op);
/// The op that does at once what the start and its done do; call for async-start, of the computation it calls.
const OpDef& synchronous_op(const OpDef& start);
/// The element of the start's value that its done returns; -1: all of it.
int async_result(const OpDef& start);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Instructions and shardings without information that a rewrite would lose.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Returns true if the instruction only computes its value: it has no control predecessors, and its frontend attributes
/// only explain it.
bool is_plain(const Instruction& instruction);
/// The same, but the instruction may belong to a sharding group: it may be replaced by an instruction with the same
/// notes.
bool is_plain_or_grouped(const Instruction& instruction);
/// Returns true unless the sharding leaves every dim to propagation.
bool says_something(const Sharding& sharding);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Which instructions and shardings say nothing that a rewrite would lose.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// The instruction says nothing but the value it computes: no control predecessors, no frontend attributes but those that explain.
bool is_plain(const Instruction& instruction);
/// The same of one that may belong to a sharding group: another instruction with its notes may take its place.
bool is_plain_or_grouped(const Instruction& instruction);
/// A sharding that is not left to propagation as a whole.
bool says_something(const Sharding& sharding);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Custom calls with an unknown target.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// The unknown targets, each once, with the first call: `"lapack_sgetrf" (%y)`. Evaluation computes a value from the
/// target and the operands instead. This is sufficient to compare a program with its partitioned form, and for
/// nothing else.
std::vector<std::string> unknown_custom_calls(const Program& program);

/// The group of a custom-call xla.sdy.ShardingGroup, as its frontend attribute `xla.sdy.sharding_group_id` writes it
/// (`0 : i64`): the operands of all calls of one group get the same sharding (jax's shard_alike). nullopt for any
/// other instruction.
std::optional<std::string> sharding_group(const Instruction& instruction);

}  // namespace tessera

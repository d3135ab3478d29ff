// SPDX-License-Identifier: Apache-2.0
// Custom-calls whose target nobody here knows.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// The targets that have no meaning here, each once, with the first call: `"lapack_sgetrf" (%y)`. What evaluation gives for them is made of
/// target and operands: enough to compare a program with its partitioned self, and nothing else.
std::vector<std::string> unknown_custom_calls(const Program& program);

/// The group of a custom-call xla.sdy.ShardingGroup, as its frontend attribute `xla.sdy.sharding_group_id` writes it (`0 : i64`): the
/// operands of all calls of one group lie alike (jax's shard_alike). Nothing for any other instruction.
std::optional<std::string> sharding_group(const Instruction& instruction);

}  // namespace tessera

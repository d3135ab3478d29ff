// SPDX-License-Identifier: Apache-2.0
// Custom calls with an unknown target.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// Returns the unknown targets, each once, with the first call: `"lapack_sgetrf" (%y)`. The evaluator cannot run them.
/// It uses a hash of the target and the operands as the result, which serves only to compare a program with its
/// partitioned form.
std::vector<std::string> unknown_custom_calls(const Program& program);

/// Returns the group of a custom-call xla.sdy.ShardingGroup: the text of its frontend attribute
/// `xla.sdy.sharding_group_id`, such as `0 : i64`. The operands of all calls of one group get the same sharding (JAX's
/// shard_alike). nullopt for any other instruction.
std::optional<std::string> sharding_group(const Instruction& instruction);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Writes Shardy's groups as ` shard_as N` after the shardings of their members; the calls that define the groups lose
/// their operand. Groups that share a member are merged.
Program with_sharding_groups(const Program& program);

}  // namespace tessera

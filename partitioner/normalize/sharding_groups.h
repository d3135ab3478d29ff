// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Shardy's groups as ` shard_as N` behind the shardings of their members; the calls that said so keep no operand. Groups that share a
/// member are one.
Program with_sharding_groups(const Program& program);

}  // namespace tessera

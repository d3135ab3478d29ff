// SPDX-License-Identifier: Apache-2.0
// The sharding that the root of each computation must have, as its callers expect it. Callers that share a computation
// agree on it here.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// Without open dims and partial axes.
Shardings closed(Shardings leaves);
/// By computation; nullopt if the root keeps the sharding that the computation gives it. Leaves are closed, and only
/// the entry's may be partial.
using RootTargets = std::vector<std::optional<Shardings>>;
/// `used`: the computations that are partitioned. Throws an error if loops with different shardings share a body.
RootTargets root_targets(const Program& program, const std::vector<bool>& used);

}  // namespace tessera

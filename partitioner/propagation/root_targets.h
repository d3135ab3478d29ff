// SPDX-License-Identifier: Apache-2.0
// How the root of each computation must lie: as who calls it expects. Callers that share a computation agree on it here.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// By computation; none where the root keeps what the computation finds. Leaves are closed, and only the entry's may be partial.
using RootTargets = std::vector<std::optional<Shardings>>;
/// `used`: the computations that are partitioned. Error where loops that lie differently share what they run.
RootTargets root_targets(const Program& program, const std::vector<bool>& used);

}  // namespace tessera

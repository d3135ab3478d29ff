// SPDX-License-Identifier: Apache-2.0
// Which ranks communicate with each other.
#pragma once

#include <vector>

#include "tessera/ops/collectives.h"

namespace tessera {

/// Every rank of the world in one list; who speaks with nobody is alone.
using RankGroups = std::vector<std::vector<int>>;

/// The groups of a collective; of a permute, the ranks that pairs join, directly or through others. Error when it names a rank that the
/// world has not.
RankGroups rank_groups(const Instruction& collective, int world_size);
/// The ranks that collectives join which run whenever all of these computations do.
RankGroups united_rank_groups(const Program& program, const std::vector<ComputationId>& computations, int world_size);

/// The ranks that must take one branch. Where all ranks come to it, those that collectives join in all branches but at most one: two that
/// are together in one branch only may each take another. Else those that collectives join in all.
RankGroups agreeing_rank_groups(const Program& program, const std::vector<ComputationId>& branches, int world_size,
                                bool all_are_here);

/// The members of the group with this rank, in its order.
std::vector<int> own_group(const RankGroups& groups, int rank);

}  // namespace tessera

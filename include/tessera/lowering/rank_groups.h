// SPDX-License-Identifier: Apache-2.0
// The groups of ranks that communicate with each other.
#pragma once

#include <vector>

#include "tessera/ops/collectives.h"

namespace tessera {

/// Every rank of the world is in exactly one list. A rank without communication is alone in its list.
using RankGroups = std::vector<std::vector<int>>;

/// Returns the groups of a collective. For a permute, a group has the ranks that its pairs connect, directly or through
/// other ranks. Error if the collective names a rank that is not in the world.
RankGroups rank_groups(const Instruction& collective, int world_size);
/// Returns the groups of ranks that the collectives in these computations connect, directly or through other ranks.
/// Ignores collectives in branches and loops, because these may not run.
RankGroups united_rank_groups(const Program& program, const std::vector<ComputationId>& computations, int world_size);

/// The groups of ranks that must take the same branch. If all ranks reach the conditional, these are the ranks that
/// collectives connect in all branches or in all but one, because they communicate in at least one of any two branches.
/// Otherwise, these are the ranks that collectives connect in all branches.
RankGroups agreeing_rank_groups(const Program& program, const std::vector<ComputationId>& branches, int world_size,
                                bool all_are_here);

/// The members of the group of this rank, in order.
std::vector<int> own_group(const RankGroups& groups, int rank);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The groups of ranks that communicate with each other.
#pragma once

#include <vector>

#include "tessera/ops/collectives.h"

namespace tessera {

/// Every rank of the world is in exactly one list. A rank without communication is alone in its list.
using RankGroups = std::vector<std::vector<int>>;

/// The groups of a collective. For a permute, the ranks that its pairs connect, directly or through others. Error if
/// it names a rank that is not in the world.
RankGroups rank_groups(const Instruction& collective, int world_size);
/// The groups that result from all collectives that run whenever all of these computations run.
RankGroups united_rank_groups(const Program& program, const std::vector<ComputationId>& computations, int world_size);

/// The groups of ranks that must take the same branch. If all ranks reach the conditional, these are the ranks that
/// collectives connect in all branches but at most one: two ranks that communicate in only one branch may take
/// different branches. Otherwise, these are the ranks that collectives connect in all branches.
RankGroups agreeing_rank_groups(const Program& program, const std::vector<ComputationId>& branches, int world_size,
                                bool all_are_here);

/// The members of the group of this rank, in order.
std::vector<int> own_group(const RankGroups& groups, int rank);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// All-gathers on one node that are no copies: every rank reads the operands of all where they lie.
#pragma once

#include "flow.h"
#include "tessera/ops/collectives.h"

namespace tessera::schedule {

/// Whether every group of the collective lies within a node, and has more than one member.
bool stays_on_nodes(const CollectiveAttributes& attributes, const std::vector<int>& nodes);

/// Per slot: the origin slot of the operand, if the slot is a leaf of an all-gather of contiguous parts, of whole pages, within nodes;
/// -1 for all others. Empty if there is none.
std::vector<int> shared_operands(const Flow& flow, const std::vector<int>& nodes);

/// Says in the steps of a plan what they have to wait for: before an operand is read, all members have written theirs; before its
/// memory is written again, all members have read it.
void add_awaits(const Flow& flow, const std::vector<int>& step_of, const std::vector<BufferId>& buffer_of,
                Schedule& plan);

}  // namespace tessera::schedule

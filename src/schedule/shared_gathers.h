// SPDX-License-Identifier: Apache-2.0
// All-gathers on one node of which the node has one: every rank reads the operands of all where they lie, or slices of the result that all
// have written their parts to.
#pragma once

#include "flow.h"
#include "tessera/ops/collectives.h"

namespace tessera::schedule {

/// Whether every group of the collective lies within a node, and has more than one member.
bool stays_on_nodes(const CollectiveAttributes& attributes, const std::vector<int>& nodes);

/// How a node comes to have one result of an all-gather.
struct SharedLeaf {
  enum class Way : std::uint8_t { kNone, kInPlace, kAssembled };
  Way way = Way::kNone;
  int operand = -1;              // the origin slot of what is gathered
  std::int64_t slice_bytes = 0;  // of an assembled one: what each member keeps of it; 0: not worth it
};
struct SharedLeaves {
  std::vector<SharedLeaf> of_slot;  // empty if there is none
  bool one_group = true;            // all are gathered by the same groups
};
/// The all-gathers within nodes of contiguous parts: in place where these are whole pages, else assembled.
SharedLeaves shared_leaves(const Flow& flow, const std::vector<int>& nodes);

/// Two collectives of the same groups.
bool same_groups(const Instruction& a, const Instruction& b);
bool overlap(const Buffer& a, const Buffer& b);

/// Says in the steps of a plan what they have to wait for: before an operand is read, all members have written theirs; before its
/// memory is written again, all members have read it; before parts are written to slices, these are free on all members.
void add_awaits(const Flow& flow, const std::vector<int>& step_of, const std::vector<BufferId>& buffer_of,
                Schedule& plan);

}  // namespace tessera::schedule

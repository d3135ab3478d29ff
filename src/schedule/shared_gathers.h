// SPDX-License-Identifier: Apache-2.0
// All-gathers on one node whose result the node stores only once: every rank reads the operands of all ranks in place,
// or slices of the result, to which all ranks have written their parts.
#pragma once

#include "flow.h"
#include "tessera/ops/collectives.h"

namespace tessera::schedule {

/// How a node stores a single result of an all-gather.
struct SharedLeaf {
  enum class Storage : std::uint8_t { kNone, kInPlace, kAssembled };
  Storage storage = Storage::kNone;
  int operand = -1;              // the origin slot of the operand
  std::int64_t slice_bytes = 0;  // of an assembled result: the size of each member's slice; 0 if it is not worthwhile
};
struct SharedLeaves {
  std::vector<SharedLeaf> of_slot;  // empty if there are none
  bool one_group = true;            // all have the same groups
};
/// The all-gathers of contiguous parts within nodes: in place if the parts consist of complete pages, else assembled.
SharedLeaves shared_leaves(const Flow& flow, const std::vector<int>& nodes);

/// Whether two collectives have the same groups.
bool same_groups(const Instruction& a, const Instruction& b);
bool overlap(const Buffer& a, const Buffer& b);

/// Adds awaits to the steps of a plan: before a step reads an operand, all members have written theirs; before it
/// overwrites the operand, all members have read it; before it writes parts to slices, these are free on all members.
void add_awaits(const Flow& flow, const std::vector<int>& step_of, const std::vector<BufferId>& buffer_of,
                Schedule& plan);

}  // namespace tessera::schedule

// SPDX-License-Identifier: Apache-2.0
// A group over several nodes with equally many members on each. It transfers as much as possible inside nodes. Members
// form a table (node, place in node); `local` is the group of a row, `cross` that of a column, `flat` that of all
// members.
//
// Large collectives are processed in chunks (chunk_pipeline.h). Reductions proceed node by node: first the members of a
// node in rank order, then the nodes in the order of their first members.
#pragma once

#include <functional>

#include "group_base.h"

namespace tessera::collectives {

struct GroupMakers {
  std::function<std::shared_ptr<GroupBase>(const std::vector<int>& world_ranks)> on_node;
  /// A hierarchical group has several groups between nodes, which `flavour` distinguishes.
  std::function<std::shared_ptr<ProcessGroup>(const std::vector<int>& world_ranks, const std::string& flavour)>
      between_nodes;
};

/// Makes the group of `members`, of which the i-th is on nodes[i]: a group on one node, a group between nodes, or a
/// hierarchical group. If nodes have different numbers of members, the group is one between nodes. Sub-groups of a
/// hierarchical group have counted = false.
std::shared_ptr<ProcessGroup> make_for_nodes(const std::shared_ptr<Fabric>& fabric, const Membership& members,
                                             const std::vector<int>& nodes,
                                             const std::function<GroupMakers(bool counted)>& makers);

}  // namespace tessera::collectives

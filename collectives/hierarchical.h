// SPDX-License-Identifier: Apache-2.0
// A group over several nodes with equally many members on each: what can stay inside a node stays there. Members are seen as
// a table (node, place in node); `local` joins a row, `cross` a column, `flat` all.
//
// What is large goes in chunks: pipeline.h. Reductions go node by node: first the members of a node in rank order, then the nodes in the order of their first members.
#pragma once

#include <functional>

#include "group_base.h"

namespace tessera::collectives {

struct GroupMakers {
  std::function<std::shared_ptr<GroupBase>(const std::vector<int>& world_ranks)> on_node;
  /// `flavour` tells apart the groups between nodes that one group needs.
  std::function<std::shared_ptr<ProcessGroup>(const std::vector<int>& world_ranks, const std::string& flavour)>
      between_nodes;
};

/// The group of `members`, the i-th of which lives on nodes[i]: on one node, between nodes, or hierarchical where both
/// (uneven nodes take the flat form between nodes). Parts of a hierarchical group are made with counted = false.
std::shared_ptr<ProcessGroup> make_for_nodes(const std::shared_ptr<Fabric>& fabric, const Membership& members,
                                             const std::vector<int>& nodes,
                                             const std::function<GroupMakers(bool counted)>& makers);

}  // namespace tessera::collectives

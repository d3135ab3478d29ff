// SPDX-License-Identifier: Apache-2.0
// The nodes of virtual ranks, and of the ranks of a plan.
#pragma once

#include <vector>

namespace tessera {

/// Returns the node of each of `ranks` ranks. TESSERA_NODE lists the nodes. Without a list, all ranks are on node 0.
/// Error if the length of the list is not `ranks`.
std::vector<int> listed_nodes(int ranks);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The nodes of ranks that this process names itself: of virtual ranks, and of ranks that a plan is made for.
#pragma once

#include <vector>

namespace tessera {

/// The node of each of `ranks` ranks by the list in TESSERA_NODE; all on node 0 where it lists none. Error: a list of another length.
std::vector<int> listed_nodes(int ranks);

}  // namespace tessera

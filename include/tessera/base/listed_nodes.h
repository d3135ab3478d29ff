// SPDX-License-Identifier: Apache-2.0
// The nodes of virtual ranks, and of the ranks of a plan.
#pragma once

#include <vector>

namespace tessera {

/// The node of each of `ranks` ranks from the list in TESSERA_NODE; node 0 for all if there is no list. Error: a list
/// of another length.
std::vector<int> listed_nodes(int ranks);

}  // namespace tessera

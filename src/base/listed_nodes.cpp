// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/listed_nodes.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"

namespace tessera {

std::vector<int> listed_nodes(int ranks) {
  const auto names = options().list("TESSERA_NODE");
  std::vector<int> nodes(static_cast<std::size_t>(ranks), 0);
  if (names.size() <= 1) return nodes;  // all ranks have the same name: one node
  require(isize(names) == ranks, "TESSERA_NODE lists {} nodes for {} ranks; give one for each rank", names.size(),
          ranks);
  for (int rank = 0; rank < ranks; ++rank)
    at(nodes, rank) = static_cast<int>(std::find(names.begin(), names.end(), at(names, rank)) - names.begin());
  return nodes;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "tessera/collectives/node_memory.h"

#include "shared_memory/heap.h"
#include "tessera/base/rank_context.h"

namespace tessera {

std::shared_ptr<NodeMemory> node_memory() {
  auto& own = RankContext::current().get<collectives::OwnNodeMemory>();
  if (own.make) {
    own.memory = own.make();
    own.make = nullptr;
  }
  return own.memory;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Runs a body as each of N virtual ranks, the front end joined to their world.
#pragma once

#include <functional>

#include "tessera/base/rank_context.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera {

inline void on_ranks(int count, const std::function<void(int rank)>& body) {
  run_virtual_ranks(count, [&](ProcessGroup& world) {
    join_world(world);
    body(world.rank());
  });
}

/// A fresh context of one rank for a test: nothing of an earlier test's trace, seed or mesh.
class FreshRank {
 public:
  FreshRank() : context_(0, 1), scope_(context_) {}

 private:
  RankContext context_;
  RankScope scope_;
};

}  // namespace tessera

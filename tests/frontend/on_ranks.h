// SPDX-License-Identifier: Apache-2.0
// Runs a body on each of N virtual ranks whose front end has joined their world.
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

/// A new context of one rank for a test, without the trace, seed or mesh of earlier tests.
class FreshRank {
 public:
  FreshRank() : context_(0, 1), scope_(context_) {}

 private:
  RankContext context_;
  RankScope scope_;
};

}  // namespace tessera

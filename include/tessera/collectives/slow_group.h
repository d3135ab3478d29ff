// SPDX-License-Identifier: Apache-2.0
// A group that is slower than it could be: links of given latency and bandwidth, ranks that come late. For tests and for measuring
// how much of a network's time is hidden; one machine has neither.
//
//   const auto slow = slow_down(world.shared_group(), {.latency = 1e-3, .bytes_per_second = 1e9});
#pragma once

#include <memory>

#include "tessera/collectives/process_group.h"

namespace tessera {

/// Seconds, and the bytes that a rank receives per second; 0: at once.
struct SlowLinks {
  double latency = 0;
  double bytes_per_second = 0;
  /// At most, before each call and each advance(): uniform, other on every rank.
  double jitter = 0;
  unsigned seed = 1;
};

/// A collective over `group` is done no sooner than its links allow. A started one lets the rank go on meanwhile; bytes of several under
/// way pass one after the other, their latencies at once. What is split from it is as slow.
std::shared_ptr<ProcessGroup> slow_down(std::shared_ptr<ProcessGroup> group, const SlowLinks& links);

}  // namespace tessera

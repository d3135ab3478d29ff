// SPDX-License-Identifier: Apache-2.0
// A group with artificially slow links and with ranks that arrive late. For tests, and to measure on a single machine
// how much communication time is hidden.
//
//   const auto slow = slow_down(world.shared_group(), {.latency = 1e-3, .bytes_per_second = 1e9});
#pragma once

#include <memory>

#include "tessera/collectives/process_group.h"

namespace tessera {

/// `latency` is in seconds. `bytes_per_second` is the rate at which a rank receives. 0 means no delay.
struct SlowLinks {
  double latency = 0;
  double bytes_per_second = 0;
  /// The largest delay before each call and each advance(), in seconds: uniformly distributed, different on every
  /// rank.
  double jitter = 0;
  unsigned seed = 1;
};

/// Wraps `group` so that a collective completes no earlier than the links allow. A start_* call returns immediately.
/// The bytes of several running collectives are transferred one after the other, but their latencies overlap. Groups
/// that are split from the result have the same links.
std::shared_ptr<ProcessGroup> slow_down(std::shared_ptr<ProcessGroup> group, const SlowLinks& links);

}  // namespace tessera

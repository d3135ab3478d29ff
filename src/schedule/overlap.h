// SPDX-License-Identifier: Apache-2.0
// Collectives that leave a node take time without work for the rank: they are started early and waited for late.
#pragma once

#include "flow.h"

namespace tessera::schedule {

/// Per instruction: whether it is a collective that may be under way while later steps run.
std::vector<bool> overlapped(const Flow& flow, const ScheduleOptions& options);

/// The steps with overlapped all-gathers moved forward: one is started before the first reader of the one before it, so that at most
/// two are held at a time beyond what the order needs.
std::vector<std::vector<Id>> prefetch(const Flow& flow, std::vector<std::vector<Id>> steps,
                                      const std::vector<bool>& is_overlapped);

}  // namespace tessera::schedule

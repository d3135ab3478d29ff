// SPDX-License-Identifier: Apache-2.0
// Collectives between nodes take time without work for the rank, so they are started early and awaited late.
#pragma once

#include "flow.h"

namespace tessera::schedule {

/// Per instruction: whether it is a collective that may be in flight while later steps run.
std::vector<bool> overlapped(const Flow& flow, const ScheduleOptions& options);

/// Whether a collective of the schedule, or of a computation that it calls, is in flight while later steps run.
bool overlaps(const Schedule& schedule);

/// Moves overlapped all-gathers forward: each is started before the first reader of the previous one. At most two
/// results are in memory at a time in addition to those that the order requires. All-gathers that only the caller reads,
/// such as those of a loop's next round, start first. Stores of reductions in results run last.
std::vector<std::vector<Id>> prefetch(const Flow& flow, std::vector<std::vector<Id>> steps,
                                      const std::vector<bool>& is_overlapped);

/// The plan with exactly these options (schedule.cpp). make_schedule() overlaps fewer collectives if memory requires it.
std::shared_ptr<const Schedule> plan_once(const Program& program, const ScheduleOptions& options);

}  // namespace tessera::schedule

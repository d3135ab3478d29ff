// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/op_def.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

/// The first bytes of a while's scratch hold its predicate.
inline constexpr std::int64_t kPredicateBytes = kBufferAlignment;

/// Every dim before `dim` has size 1: parts along it lie one after the other.
bool parts_are_contiguous(const Dims& dims, std::int64_t dim);

/// Memory an instruction needs only while it runs: to pack what a collective sends and receives in parts that are not contiguous, and
/// the arenas of nested computations.
std::int64_t scratch_bytes(const OpView& view, const std::vector<NestedSchedule>& nested);

}  // namespace tessera::schedule

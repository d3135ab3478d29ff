// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/op_def.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

/// The first bytes of the scratch memory of a while hold its predicate.
inline constexpr std::int64_t kPredicateBytes = kBufferAlignment;

/// Whether every dim before `dim` has size 1, so that parts along `dim` are contiguous.
bool parts_are_contiguous(const Dims& dims, std::int64_t dim);

/// Memory that an instruction needs only while it runs: to pack the parts that a collective sends and receives if they
/// are not contiguous, and for the arenas of nested computations.
std::int64_t scratch_bytes(const OpView& view, const std::vector<NestedSchedule>& nested);

}  // namespace tessera::schedule

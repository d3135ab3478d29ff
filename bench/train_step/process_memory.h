// SPDX-License-Identifier: Apache-2.0
// The memory of this process as the system counts it.
#pragma once

#include <cstdint>
#include <functional>

#include "tessera/collectives/process_group.h"

namespace tessera::bench {

/// Returns the bytes of this process now. A page shared by n processes counts as 1/n in each (PSS).
std::int64_t resident_bytes();
/// Returns the maximum of samples taken while `work` runs. Sampling takes at most a twentieth of the time.
std::int64_t peak_resident_bytes(const std::function<void()>& work);
/// Returns the maximum since the start of the process, where every page counts completely (VmHWM). Unlike samples, it
/// misses nothing.
std::int64_t high_water_bytes();

/// Returns the mean over ranks of the processes' figures. Virtual ranks share one process, whose bytes count once.
/// Collective.
std::int64_t bytes_per_rank(ProcessGroup& world, std::int64_t bytes_of_process);

}  // namespace tessera::bench

// SPDX-License-Identifier: Apache-2.0
// Memory of this process as the system counts it.
#pragma once

#include <cstdint>
#include <functional>

#include "tessera/collectives/process_group.h"

namespace tessera::bench {

/// Bytes of this process now; a page that n processes share counts as 1/n in each (PSS).
std::int64_t resident_bytes();
/// The most that samples taken while `work` runs see, at most a twentieth of the time.
std::int64_t peak_resident_bytes(const std::function<void()>& work);
/// The most this process has had since it began, every page counted wholly (VmHWM): what no sample can have missed.
std::int64_t high_water_bytes();

/// The mean over ranks of what each process counts; virtual ranks are parts of one process, whose bytes count once. Collective.
std::int64_t bytes_per_rank(ProcessGroup& world, std::int64_t bytes_of_process);

}  // namespace tessera::bench

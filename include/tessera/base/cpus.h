// SPDX-License-Identifier: Apache-2.0
// The processors this process has: fewer than the machine's where a launcher binds ranks to cores. One answer for all who decide by it
// whether ranks and threads have a core each.
#pragma once

#include <bitset>

namespace tessera {

inline constexpr int kMostCpus = 1024;
using CpuSet = std::bitset<kMostCpus>;

/// Those that the calling thread may run on.
CpuSet usable_cpus();
/// How many these are; at least 1.
int usable_cpu_count();

}  // namespace tessera

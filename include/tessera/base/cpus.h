// SPDX-License-Identifier: Apache-2.0
// The processors that this process may use. If a launcher binds ranks to cores, these are fewer than the machine has.
// All code that decides whether each rank and thread has its own core uses these functions.
#pragma once

#include <bitset>

namespace tessera {

inline constexpr int kMostCpus = 1024;
using CpuSet = std::bitset<kMostCpus>;

/// The processors on which the calling thread may run.
CpuSet usable_cpus();
/// The number of these processors; at least 1.
int usable_cpu_count();

}  // namespace tessera

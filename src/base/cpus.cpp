// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tessera {

CpuSet usable_cpus() {
  CpuSet out;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
    for (int cpu = 0; cpu < std::min(kMostCpus, CPU_SETSIZE); ++cpu)
      if (CPU_ISSET(cpu, &cpus)) out.set(static_cast<std::size_t>(cpu));
    return out;
  }
  // The machine has more CPUs than the kernel's interface can describe.
  const int count = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostCpus);
  for (int cpu = 0; cpu < count; ++cpu) out.set(static_cast<std::size_t>(cpu));
  return out;
}

int usable_cpu_count() { return std::max(1, static_cast<int>(usable_cpus().count())); }

}  // namespace tessera

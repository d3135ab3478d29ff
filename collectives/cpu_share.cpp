// SPDX-License-Identifier: Apache-2.0
#include "tessera/collectives/cpu_share.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "tessera/base/cpus.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

struct Place {
  std::uint64_t machine = 0;
  std::array<std::uint64_t, kMostCpus / 64> cpus{};
  std::int64_t threads = 1;
};

// Identifies a running kernel, regardless of the host names of its containers.
std::uint64_t machine_hash() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return hash_text(id);
}

}  // namespace

double cpu_share(ProcessGroup& world, int threads) {
  Place own{.machine = machine_hash(), .threads = threads};
  const CpuSet cpus = usable_cpus();
  for (std::size_t cpu = 0; cpu < cpus.size(); ++cpu)
    if (cpus[cpu]) own.cpus[cpu / 64] |= std::uint64_t{1} << cpu % 64;
  std::vector<Place> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  CpuSet together;
  std::int64_t all_threads = 0;
  for (const Place& place : all) {
    if (place.machine != own.machine) continue;
    all_threads += place.threads;
    for (std::size_t cpu = 0; cpu < together.size(); ++cpu)
      if ((place.cpus[cpu / 64] >> cpu % 64 & 1U) != 0) together.set(cpu);
  }
  return std::min(1.0, static_cast<double>(together.count()) / static_cast<double>(all_threads));
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/memory.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// Returns the number after `name` in a file whose lines have the form `name: number kB`.
std::optional<double> kilobytes_in(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    double value = 0;
    if (word == name && file >> value) return value * 1024;
  }
  return std::nullopt;
}

std::optional<double> number_in(const char* path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;  // the file does not exist or contains `max`
}

std::string control_group_text() {
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return "";
  return fmt::format("; its control group uses {} of {}", format_bytes(*used), format_bytes(*limit));
}

std::string address_limit_text() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("; ulimit -v allows this process {} of addresses",
                     format_bytes(static_cast<double>(limit.rlim_cur)));
}

}  // namespace

std::string memory_state() {
  std::string out;
  if (const auto held = kilobytes_in("/proc/self/status", "VmRSS:"))
    out = fmt::format("this process holds {}", format_bytes(*held));
  const auto free = kilobytes_in("/proc/meminfo", "MemAvailable:");
  const auto total = kilobytes_in("/proc/meminfo", "MemTotal:");
  if (free && total)
    out += fmt::format("{}the machine has {} of {} free", out.empty() ? "" : "; ", format_bytes(*free),
                       format_bytes(*total));
  return out + control_group_text() + address_limit_text();
}

std::int64_t machine_memory() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>((info.totalram + info.totalswap) * info.mem_unit);
}

void fail_to_allocate(std::int64_t bytes, std::string_view purpose, std::string_view held) {
  const std::string state = memory_state();
  fail("out of memory: cannot allocate {} ({} bytes) for {}; {}{}{}", format_bytes(static_cast<double>(bytes)), bytes,
       purpose, held, held.empty() || state.empty() ? "" : "; ", state);
}

}  // namespace tessera

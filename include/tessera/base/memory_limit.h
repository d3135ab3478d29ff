// SPDX-License-Identifier: Apache-2.0
// The memory that a process holds, and the limits that the machine and its control groups set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Reads a number of bytes: `2GB`, `1.5 GiB`, `700MB`, `4096`. GB and GiB both mean 2^30 bytes, as in format_bytes().
/// Throws Error `NAME=TEXT: must be a size such as 2GB or 1.5GiB` if the text is not a size.
std::int64_t parse_bytes(std::string_view text, std::string_view name);

/// Returns the bytes of memory that this process holds: the PSS of /proc/self/smaps_rollup, which divides a shared page
/// equally among the processes that map it. If the file cannot be read, returns the resident size.
std::int64_t process_memory();

/// Memory that several processes share, and how much of it is in use, without the page cache.
struct SharedLimit {
  std::string what;  // `the control group /sys/fs/cgroup/memory/job`, `the machine`
  std::int64_t limit = 0;
  std::int64_t used = 0;
};

/// SharedLimit::what of the machine.
inline constexpr std::string_view kMachine = "the machine";

/// The limits of the control group of this process and of the groups that contain it (versions 1 and 2), and that of
/// the machine with its swap space.
std::vector<SharedLimit> shared_limits();

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// 1 GB is 2^30 bytes, as in format_bytes().
constexpr std::pair<std::string_view, double> kUnits[] = {
    {"", 1},        {"B", 1},        {"KB", 0x1p10},  {"MB", 0x1p20},  {"GB", 0x1p30},
    {"TB", 0x1p40}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};

// The values of a file whose lines have the form `name value` or `name: value kB`, in the order of `names`.
std::vector<std::optional<std::int64_t>> values_in(const std::string& path, const std::vector<std::string>& names) {
  std::vector<std::optional<std::int64_t>> out(names.size());
  std::ifstream file(path);
  std::string word;
  while (file >> word)
    if (const auto found = std::find(names.begin(), names.end(), word); found != names.end()) {
      std::int64_t value = 0;
      if (file >> value) out[static_cast<std::size_t>(found - names.begin())] = value;
    }
  return out;
}

std::optional<std::int64_t> value_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // the file does not exist or contains `max`
}

// The names of one version of control groups.
struct Version {
  std::string root;
  const char* limit;
  const char* used;
  std::vector<std::string> cache;  // the names of the page cache in memory.stat
};

// Adds the limits of `group` and of the groups that contain it.
void add_limits(const Version& version, std::string group, std::vector<SharedLimit>& out) {
  constexpr std::int64_t kNone = std::int64_t{1} << 62;  // version 1 writes a larger number
  for (;;) {
    const std::string folder = version.root + (group == "/" ? "" : group);
    const auto limit = value_in(folder + "/" + version.limit);
    const auto used = value_in(folder + "/" + version.used);
    if (limit && used && *limit < kNone) {
      std::int64_t cache = 0;
      for (const auto& part : values_in(folder + "/memory.stat", version.cache)) cache += part.value_or(0);
      out.push_back({"the control group " + folder, *limit, std::max<std::int64_t>(0, *used - cache)});
    }
    if (group.empty() || group == "/") return;
    group.resize(group.rfind('/'));
  }
}

void add_control_groups(std::vector<SharedLimit>& out) {
  const std::string root = "/sys/fs/cgroup";
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = split(parts[1], ',');
    if (parts[0] == "0")
      add_limits({root, "memory.max", "memory.current", {"inactive_file", "active_file"}}, parts[2], out);
    else if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end())
      add_limits({root + "/memory",
                  "memory.limit_in_bytes",
                  "memory.usage_in_bytes",
                  {"total_inactive_file", "total_active_file"}},
                 parts[2], out);
  }
}

}  // namespace

std::int64_t parse_bytes(std::string_view text, std::string_view name) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto* const found =
      std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& known) { return known.first == unit; });
  const bool is_size = code == std::errc() && std::isfinite(value) && value >= 0 && found != std::end(kUnits);
  require(is_size, "{}={}: must be a size such as 2GB or 1.5GiB", name, text);
  const double bytes = value * found->second;
  require(bytes < 0x1p62, "{}={}: is larger than any memory", name, text);
  return static_cast<std::int64_t>(bytes);
}

std::int64_t process_memory() {
  constexpr std::int64_t kKilo = 1024;
  if (const auto share = values_in("/proc/self/smaps_rollup", {"Pss:"})[0]) return *share * kKilo;
  return values_in("/proc/self/status", {"VmRSS:"})[0].value_or(0) * kKilo;
}

std::vector<SharedLimit> shared_limits() {
  std::vector<SharedLimit> out;
  add_control_groups(out);
  constexpr std::int64_t kKilo = 1024;
  const auto machine = values_in("/proc/meminfo", {"MemTotal:", "MemAvailable:", "SwapTotal:", "SwapFree:"});
  if (machine[0] && machine[1]) {
    const std::int64_t swap = machine[2].value_or(0);
    out.push_back({std::string(kMachine), (*machine[0] + swap) * kKilo,
                   (*machine[0] - *machine[1] + swap - machine[3].value_or(0)) * kKilo});
  }
  return out;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/accelerator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>

#include "tessera/base/error.h"

namespace tessera {
namespace {

struct Version {
  std::string_view name;
  std::int64_t cores_of_chip;
  bool counts_chips;  // the number in the name of a slice
  std::int64_t devices_of_chip;
  std::int64_t chips_of_host;  // of a slice of several hosts
  std::int64_t chips_of_pod;
};

constexpr std::array<Version, 6> kVersions = {{{"v2", 2, false, 2, 4, 256},
                                               {"v3", 2, false, 2, 4, 1024},
                                               {"v4", 2, false, 1, 4, 4096},
                                               {"v5p", 2, false, 1, 4, 8960},
                                               {"v5litepod", 1, true, 1, 4, 256},
                                               {"v6e", 1, true, 1, 4, 256}}};
constexpr std::int64_t kMostOfOneHost = 8;  // chips of v5litepod and v6e

void check_chips(const Version& version, std::string_view name, std::int64_t chips, std::int64_t unit) {
  const std::string_view counted = version.counts_chips ? "chips" : "cores";
  const std::int64_t per_chip = version.counts_chips ? 1 : version.cores_of_chip;
  require(chips <= version.chips_of_pod, "{}: a pod of {} has only {} {}", name, version.name,
          version.chips_of_pod * per_chip, counted);
  const bool is_one_chip = version.counts_chips && chips == 1;
  require(is_one_chip || chips % version.chips_of_host == 0, "{}: a slice of {} has a multiple of {} {}{}", name,
          version.name, unit, counted, version.counts_chips ? ", or 1" : "");
}

}  // namespace

std::optional<AcceleratorSlice> AcceleratorSlice::parse(std::string_view name) {
  const std::size_t hyphen = name.find('-');
  const auto version = std::find_if(kVersions.begin(), kVersions.end(),
                                    [&](const Version& each) { return each.name == name.substr(0, hyphen); });
  if (hyphen == std::string_view::npos || version == kVersions.end()) return std::nullopt;
  const std::string_view digits = name.substr(hyphen + 1);
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const std::int64_t per_chip = version->counts_chips ? 1 : version->cores_of_chip;
  const std::int64_t unit = version->chips_of_host * per_chip;
  require(code == std::errc() && end == digits.data() + digits.size() && number > 0 && number % per_chip == 0,
          "{}: the name of a slice is {}-N, where N is a multiple of {}", name, version->name, unit);
  AcceleratorSlice out{.name = std::string(name), .chips = number / per_chip};
  check_chips(*version, name, out.chips, unit);
  out.cores = out.chips * version->cores_of_chip;
  out.devices = out.chips * version->devices_of_chip;
  const bool is_one_host = version->counts_chips && out.chips <= kMostOfOneHost;
  out.hosts = is_one_host ? 1 : out.chips / version->chips_of_host;
  return out;
}

std::string AcceleratorSlice::name_forms() {
  return fmt::format("{}-N", fmt::join(kVersions | std::views::transform(&Version::name), "-N, "));
}

std::string AcceleratorSlice::str() const {
  const auto counted = [](std::int64_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("{}: {}, {}, {}", name, counted(cores, "core"), counted(chips, "chip"), counted(hosts, "host"));
}

}  // namespace tessera

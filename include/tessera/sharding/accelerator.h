// SPDX-License-Identifier: Apache-2.0
// Slices of TPUs by their names, such as `v3-8`. Source: Google Cloud's documentation of TPU versions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// The number in the name of a slice counts cores. In the names of v5litepod and v6e it counts chips, which have one
/// core.
struct AcceleratorSlice {
  std::string name;  // v4-64
  std::int64_t cores = 0;
  std::int64_t chips = 0;
  /// The number of devices that a program has with PJRT: the cores of v2 and v3, the chips of later versions.
  std::int64_t devices = 0;
  std::int64_t hosts = 0;

  /// Reads the name of a slice. nullopt: the text does not begin with the name of a version and a hyphen. Errors: the
  /// number is not a multiple of that of a host, or exceeds that of a pod.
  static std::optional<AcceleratorSlice> parse(std::string_view name);
  /// The forms of all names: `v2-N, v3-N, …`.
  static std::string name_forms();
  /// `v4-64: 64 cores, 32 chips, 8 hosts`.
  [[nodiscard]] std::string str() const;
};

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/fsdp/units.h"

namespace tessera {

std::string unit_report(const std::vector<FsdpUnit>& units) {
  std::size_t width = 4;
  for (const auto& unit : units) width = std::max(width, unit.name.size() + unit.class_name.size() + 3);
  std::string out =
      fmt::format("{:<{}}  {:>12}  {:>10}  {:>12}\n", "unit", width, "parameters", "gathered", "per device");
  FsdpUnit total;
  for (const auto& unit : units) {
    out += fmt::format("{:<{}}  {:>12}  {:>10}  {:>12}\n", fmt::format("{} ({})", unit.name, unit.class_name), width,
                       unit.elements, format_bytes(static_cast<double>(unit.bytes)),
                       format_bytes(static_cast<double>(unit.bytes_per_device)));
    total.elements += unit.elements;
    total.bytes += unit.bytes;
    total.bytes_per_device += unit.bytes_per_device;
  }
  out += fmt::format("{:<{}}  {:>12}  {:>10}  {:>12}\n",
                     fmt::format("{} unit{}", units.size(), units.size() == 1 ? "" : "s"), width, total.elements,
                     format_bytes(static_cast<double>(total.bytes)),
                     format_bytes(static_cast<double>(total.bytes_per_device)));
  for (const auto& unit : units)
    for (const auto& note : unit.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace tessera

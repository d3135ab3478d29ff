// SPDX-License-Identifier: Apache-2.0
// Compares results up to rounding.
#pragma once

#include <string>
#include <vector>

#include "check/rounding_spread.h"
#include "check/summand_magnitudes.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// The largest permitted difference of a float result.
struct Tolerance {
  double relative = 0;   // relative to the value and to `magnitude`
  double magnitude = 0;  // the largest summand of the result
  double absolute = 0;   // the measured effect of rounding on the result
  SeenRange range{};     // by element, if measured (rounding_ranges)
  [[nodiscard]] double at(double expected) const;
};

/// The name of a result in reports: its leaf and its type in the module.
struct ResultName {
  int leaf = 0;
  Type type;
};

/// Compares the assembled shards with the value, and each replica with its part of the value, and adds differences to
/// the report. `wanted` has the expected value, either one for all devices, or one per device, with whose shard the
/// result of the device is compared.
void compare_leaf(const std::vector<Literal>& wanted, const Sharding& given, const std::vector<Literal>& shards,
                  const ResultName& name, const Tolerance& tolerance, CheckReport& report);

}  // namespace tessera

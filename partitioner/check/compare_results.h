// SPDX-License-Identifier: Apache-2.0
// Are two results the same but for roundings?
#pragma once

#include <string>
#include <vector>

#include "check/summand_magnitudes.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// By how much a float of a result may differ.
struct Tolerance {
  double relative = 0;   // of the value and of the magnitude below
  double magnitude = 0;  // the largest of what the result is a sum of
  double absolute = 0;   // what roundings were measured to do to the result
  Literal spread{};      // by element, where roundings were measured for each (rounding_spreads); else the empty tuple
  [[nodiscard]] double at(double expected) const;
};

/// How reports name a result: by its leaf and the type that the module gives it.
struct ResultName {
  int leaf = 0;
  Type type;
};

/// Compares the shards with the value, and each replica with its part of it; what differs goes into the report. `wanted`: one value for all
/// devices, or one for each, of which its shard counts.
void compare_leaf(const std::vector<Literal>& wanted, const Sharding& given, const std::vector<Literal>& shards,
                  const ResultName& name, const Tolerance& tolerance, CheckReport& report);

}  // namespace tessera

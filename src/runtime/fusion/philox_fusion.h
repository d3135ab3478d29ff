// SPDX-License-Identifier: Apache-2.0
// Recognizes rounds of a counter-based generator (Philox 2x32) among elementwise instructions. Ten rounds are a hundred
// instructions, which one kernel computes in registers.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

struct PhiloxRounds {
  Id low = -1;  // the counter before the first round
  Id high = -1;
  std::vector<Id> keys;  // one for each round: broadcast scalars
  std::uint32_t multiplier = 0;
  std::vector<Id> members;  // of the rounds, without `last`
};

/// Returns the rounds that end with `last`, or nothing if there are fewer than two.
std::optional<PhiloxRounds> match_philox_rounds(const Computation& computation, Id last);

}  // namespace tessera

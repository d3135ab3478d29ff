// SPDX-License-Identifier: Apache-2.0
// Rounds of a counter-based generator (Philox 2x32) among elementwise instructions, known by what they compute: ten of them are a
// hundred instructions, which one kernel does in registers.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

struct PhiloxRounds {
  Id low = -1;  // the counter before the first round
  Id high = -1;
  std::vector<Id> keys;  // one a round: broadcast scalars
  std::uint32_t multiplier = 0;
  std::vector<Id> members;  // of the rounds, but for `last`
};

/// The rounds that end with `last`; nothing unless there are two at least.
std::optional<PhiloxRounds> match_philox_rounds(const Computation& computation, Id last);

}  // namespace tessera

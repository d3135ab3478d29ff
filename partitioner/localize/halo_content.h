// SPDX-License-Identifier: Apache-2.0
// The positions of a halo's buffer that certainly hold zeros. If the op reads zeros beyond the ends of its operand,
// these positions need no mask.
#pragma once

#include "localize/exchange_layout.h"
#include "strategy/windows.h"

namespace tessera::reshard {

/// By tile of the halo: the intervals of its buffer that may differ from zero. Elements of uneven shards beyond the end
/// of the operand count as different from zero.
using NonzeroRows = std::vector<std::vector<Interval>>;

/// After an exchange. Permutes deliver zeros to devices that receive nothing.
NonzeroRows nonzero_rows(const Mesh& mesh, const Halo& halo, const Exchange& exchange, const ExchangeLayout& layout);
/// After each tile has taken its window from a dim of `size` elements, with zeros beyond its ends.
NonzeroRows nonzero_rows(const Halo& halo, std::int64_t size);

/// The bounds of a tile's buffer that must be masked, because values beyond them may differ from zero.
struct MaskedEnds {
  bool below = false;  // before Halo::kept
  bool above = false;
};
MaskedEnds ends_with_values(const Halo& halo, const NonzeroRows& rows);

}  // namespace tessera::reshard

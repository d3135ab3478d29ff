// SPDX-License-Identifier: Apache-2.0
// Which collectives and dots become chains of permutes and parts of the dots (collective_matmul.cpp), by modelled time.
#pragma once

#include <array>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// A dim of what a dot computes: where it stands in lhs, rhs and result; -1 where it does not.
using DotDim = std::array<int, 3>;
inline constexpr std::size_t kResult = 2;

struct ChainDot {
  Id id = -1;
  DotDim dim{};
  int moving = -1;  // the operand that is gathered; -1 before a scatter
};

/// What becomes a chain.
struct Chain {
  Id collective = -1;
  bool gathers = false;
  std::vector<ChainDot> dots;  // in order; one before a scatter
  int dim = 0;                 // of what is gathered or scattered
  std::int64_t tile = 0;       // one member's part of the dim
  std::int64_t length = 0;     // of the dim; where it is less than all tiles, the last hold padding
  std::vector<std::vector<std::int64_t>> groups;
  std::vector<Id> replaced;  // collective, dots and what stands between
  double gain = 0;           // seconds

  [[nodiscard]] std::int64_t size() const { return isize(groups.front()); }
  [[nodiscard]] bool is_uneven() const { return length != tile * size(); }
};

/// The chains of one computation that are worth it, best first; no dot is in two.
std::vector<Chain> find_chains(const Program& program, const Computation& computation, const Topology& topology);

}  // namespace tessera

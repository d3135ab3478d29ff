// SPDX-License-Identifier: Apache-2.0
// Selects the collectives and dots that become chains of permutes and partial dots (collective_matmul.cpp), by modelled
// time.
#pragma once

#include <array>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/ir/program.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// The positions of a dim of a dot in lhs, rhs and result; -1 where it does not occur.
using DotDim = std::array<int, 3>;
inline constexpr std::size_t kResult = 2;

struct ChainDot {
  Id id = -1;
  DotDim dim{};
  int moving = -1;  // the gathered operand; -1 before a scatter
};

/// A collective and the dots that become one chain with it.
struct Chain {
  Id collective = -1;
  bool gathers = false;
  std::vector<ChainDot> dots;  // in program order; a single one before a scatter
  int dim = 0;                 // the gathered or scattered dim
  std::int64_t tile = 0;       // one member's size of the dim
  std::int64_t length = 0;     // size of the dim; if it is less than that of all tiles, the last tiles contain padding
  std::vector<std::vector<std::int64_t>> groups;
  std::vector<Id> replaced;  // the collective, its dots and the instructions between them
  double gain = 0;           // seconds

  [[nodiscard]] std::int64_t size() const { return isize(groups.front()); }
  [[nodiscard]] bool is_uneven() const { return length != tile * size(); }
};

/// The chains of a computation that reduce its modelled time, best first. No dot is in two chains.
std::vector<Chain> find_chains(const Program& program, const Computation& computation, const MachineModel& machine);

}  // namespace tessera

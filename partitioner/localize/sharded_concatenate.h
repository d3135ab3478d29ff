// SPDX-License-Identifier: Apache-2.0
// Ops that concatenate parts of values along a sharded dim: a concatenation together with slices that only it reads.
// Every tile receives its rows directly from the tiles that hold them, including rows that wrap around:
//
//   roll     concatenate(x[13:16], x[0:13])   tile t's rows start at x's row 4t - 3: one permute of 3 rows
#pragma once

#include <optional>
#include <vector>

#include "propagation/factor_sharding.h"
#include "reshard_planning/exchange_plan.h"
#include "tessera/ir/program.h"

namespace tessera {

struct ShardedConcatenate {
  struct Part {
    int value = 0;  // index in `values`
    std::int64_t start = 0;
    std::int64_t length = 0;
  };
  int dim = 0;
  Axes axes;               // axes of the dim
  std::vector<Id> values;  // each with the sharding of the result
  Dims sizes;              // sizes of the dim, by value
  std::vector<Part> parts;
};

/// Null unless the instruction is such an op along a sharded dim, and all its values have the sharding of the result.
std::optional<ShardedConcatenate> sharded_concatenate_of(const Program& program, const Computation& computation,
                                                         const Instruction& instruction);

/// The exchange that fills the result's shard of `length` elements along the dim. Null if devices would receive less in
/// gathers, or if there would be too many permutes. `shards`: the dims of each value on a device.
std::optional<reshard::Exchange> exchange_sharded_concatenate(const Mesh& mesh, const ShardedConcatenate& join,
                                                              const std::vector<Dims>& shards, std::int64_t length);

}  // namespace tessera

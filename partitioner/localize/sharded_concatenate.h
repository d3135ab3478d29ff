// SPDX-License-Identifier: Apache-2.0
// Ops that put parts of values one behind the other along a sharded dim: a concatenation, and with it the slices that only it reads.
// Every tile gets its rows straight from where they lie, be it around the end:
//
//   roll     concatenate(x[13:16], x[0:13])   tile t's rows are x's from 4t - 3 on: one permute of 3 rows
#pragma once

#include <optional>
#include <vector>

#include "propagation/factor_sharding.h"
#include "reshard_planning/exchange_plan.h"
#include "tessera/ir/program.h"

namespace tessera {

struct ShardedConcatenate {
  struct Part {
    int value = 0;  // of `values`
    std::int64_t start = 0;
    std::int64_t length = 0;
  };
  int dim = 0;
  Axes axes;               // of the dim
  std::vector<Id> values;  // each sharded as the result is
  Dims sizes;              // of the dim, by value
  std::vector<Part> parts;
};

/// Null unless the instruction is one, along a sharded dim, of values that all lie like the result.
std::optional<ShardedConcatenate> sharded_concatenate_of(const Program& program, const Computation& computation,
                                                         const Instruction& instruction);

/// Fills the result's shard, of `length` elements along the dim; null where gathers would bring less or permutes be too many. `shards`:
/// what a device holds of each value.
std::optional<reshard::Exchange> exchange_sharded_concatenate(const Mesh& mesh, const ShardedConcatenate& join,
                                                              const std::vector<Dims>& shards, std::int64_t length);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// A sharded dim as two dims: its tiles, which are sharded like the dim, and the elements of a tile.
struct TiledDim {
  Dims dims;
  Sharding sharding;
};

/// `tiles` divides the dim.
inline TiledDim tiled_dim(const Type& array, const Sharding& sharding, int dim, std::int64_t tiles) {
  TiledDim out{array.dims(), sharding};
  at(out.dims, dim) = tiles;
  out.dims.insert(out.dims.begin() + dim + 1, array.dim(dim) / tiles);
  for (DimSharding& d : out.sharding.dims) d.open = true;
  out.sharding.dims.insert(out.sharding.dims.begin() + dim + 1, DimSharding{{}, true, {}});
  return out;
}

/// Rewrites one computation such that some instructions are split into several.
class Splitter {
 public:
  Splitter(const Program& program, ComputationId id, ProgramBuilder& names)
      : program_(program),
        old_(program[id]),
        builder_(names.computation(old_.name)),
        new_ids_(old_.instructions.size()) {}

 protected:
  /// plan(id of the old instruction): how to split it; false if it stays. split(instruction with new operands, plan):
  /// the replacement.
  template <class Plan, class Split>
  Computation run(const Plan& plan, const Split& split) {
    for (Id id = 0; id < old_.size(); ++id) {
      const auto how = plan(id);
      Instruction copy = old_[id];
      for (Id& operand : copy.operands) operand = at(new_ids_, operand);
      for (Id& before : copy.control_predecessors) before = at(new_ids_, before);
      at(new_ids_, id) = how ? split(std::move(copy), *how) : builder_.append(std::move(copy)).id;
    }
    return std::move(builder_).finish(builder_.value(at(new_ids_, old_.root)));
  }

  /// Gives a new value its sharding, and the notes of the instruction that is split.
  Value marked(Value value, const Instruction& split, const Sharding& sharding) {
    builder_.set_sharding(value, make_sharding(sharding));
    builder_.set_notes(value, for_another_op(split.notes));
    return value;
  }

  const Program& program_;
  const Computation& old_;
  Builder builder_;

 private:
  std::vector<Id> new_ids_;
};

}  // namespace tessera

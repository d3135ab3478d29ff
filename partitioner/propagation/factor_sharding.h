// SPDX-License-Identifier: Apache-2.0
// Conversion between shardings of tensors and strategies of an op's factors (after Shardy's sharding projection).
//
//   dot ([i,k],[k,j])->([i,j]); lhs {data,-}, rhs {-,model}      i: data   j: model   k: -
//
// A strategy assigns axes to every factor. Each axis shards at most one factor, so each device computes one block of
// the op.
#pragma once

#include <vector>

#include "tessera/ir/op_def.h"
#include "tessera/sharding/sharding.h"

namespace tessera {

using Axes = std::vector<AxisRef>;

/// The axes of each factor, major to minor.
using Strategy = std::vector<Axes>;

/// The part of a tensor's sharding that the factors can express. It omits axes that do not divide a split or merged dim
/// evenly.
Strategy project(const FactorMap& map, const TensorFactors& tensor, const Sharding& sharding);

/// The sharding of a tensor under a strategy. All dims are closed and nothing is partial.
Sharding unproject(const Mesh& mesh, const FactorMap& map, const TensorFactors& tensor, const Strategy& strategy);

/// The number of tiles of a factor under a strategy.
std::int64_t tiles_of(const Strategy& strategy, int factor);
/// The strategy that the shardings of an instruction describe. It uses only dims that consist of one factor.
Strategy strategy_of(const FactorMap& map, const std::vector<Sharding>& operands, const std::vector<Sharding>& results);

/// Reduces a strategy to the axes that every tensor can hold and that the factor kinds allow. Each axis stays at its
/// first factor only.
Strategy legal(const FactorMap& map, Strategy strategy);

/// Moves the axes of factors that must be replicated to kept factors that these axes divide. For example, if the dim of
/// a sort is sharded, this moves its axes to another dim, so that the dim of the sort is unsharded.
Strategy moved_to_kept(const FactorMap& map, Strategy strategy);

/// Extends `strategy` by the axes of `more`, for factors whose current axes are a prefix of those in `more`. It omits
/// axes in use.
void merge_into(Strategy& strategy, const Strategy& more);

/// The axes over which a result leaf is partial, in factor order: those of kReduce factors that the leaf lacks.
Axes partial_axes(const FactorMap& map, const TensorFactors& result, const Strategy& strategy);
/// All axes of the strategy.
Axes all_axes(const Strategy& strategy);

/// The factor map of any instruction: that of the op's row, or a map without factors (everything replicated) if the row
/// has none.
FactorMap factor_map(const OpView& view);

}  // namespace tessera

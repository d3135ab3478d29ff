// SPDX-License-Identifier: Apache-2.0
// Shardings seen through an op's factors, and back (after Shardy's sharding projection).
//
//   dot ([i,k],[k,j])->([i,j]); lhs {data,-}, rhs {-,model}      i: data   j: model   k: -
//
// A strategy gives every factor its axes; each axis serves at most one factor, so each device computes one block of the op.
#pragma once

#include <vector>

#include "tessera/ir/op_def.h"
#include "tessera/sharding/sharding.h"

namespace tessera {

using Axes = std::vector<AxisRef>;

/// Axes per factor, major to minor.
using Strategy = std::vector<Axes>;

/// What of a tensor's sharding its factors can express; axes a split or merged dim cannot place evenly are left out.
Strategy project(const FactorMap& map, const TensorFactors& tensor, const Sharding& sharding);

/// The tensor's sharding under a strategy (all dims closed, nothing partial).
Sharding unproject(const Mesh& mesh, const FactorMap& map, const TensorFactors& tensor, const Strategy& strategy);

/// The number of tiles a factor has in a strategy.
std::int64_t tiles_of(const Strategy& strategy, int factor);
/// What an instruction's shardings say of its factors, by the dims that belong to one factor alone.
Strategy strategy_of(const FactorMap& map, const std::vector<Sharding>& operands, const std::vector<Sharding>& results);

/// Cuts a strategy back to what every tensor can hold and the factor kinds allow, each axis at its first factor only.
Strategy legal(const FactorMap& map, Strategy strategy);

/// Takes the axes of factors that must be whole to kept factors they divide: of a sort along a sharded dim each device takes some
/// of the lines.
Strategy moved_to_kept(const FactorMap& map, Strategy strategy);

/// Adds to `strategy` what `more` says of factors that have no axes yet or fewer (a prefix), leaving out axes in use.
void merge_into(Strategy& strategy, const Strategy& more);

/// The axes of all factors of a kind, in factor order.
Axes axes_of_kind(const FactorMap& map, const Strategy& strategy, FactorKind kind);
/// All axes of the strategy.
Axes all_axes(const Strategy& strategy);

/// The factor map of any instruction: the row's, or without one a map without factors (everything whole).
FactorMap factor_map(const OpView& view);

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// The choices of a decision graph: the strategies of an op on a mesh, and the shardings in which a value can be stored.
//
//   dot [i,k], [k,j] -> [i,j] over {x}:   i over x   |   j over x   |   k over x, then all-reduce
//                                         k over x, then reduce-scatter of i (or j)   |   replicated
#pragma once

#include <vector>

#include "auto_sharding/reshard_costs.h"
#include "strategy/program_estimate.h"

namespace tessera {

/// One strategy of an op, with its shardings and its cost.
struct OpChoice {
  Shardings needed;    // by operand leaf
  Shardings results;   // by result leaf, after partial values are reduced
  double seconds = 0;  // of one run: work, halos and the reduction of partial values
};

/// Every assignment of mesh axes to factors of the op that its kind allows, and for partial results every reduction
/// into a sharded or replicated result. An axis that divides some factor evenly is not assigned to factors that it does
/// not divide evenly, because padding adds only costs.
std::vector<OpChoice> op_choices(const Mesh& mesh, const OpSignature& signature, const ProgramEstimator& estimator,
                                 ReshardCosts& reshards);

/// Every assignment of mesh axes to dims of the type; the first one is replicated.
std::vector<Sharding> storage_choices(const Mesh& mesh, const Type& type);

}  // namespace tessera

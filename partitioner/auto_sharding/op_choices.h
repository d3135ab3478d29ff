// SPDX-License-Identifier: Apache-2.0
// The ways to compute one op on a mesh, and the ways to store a value.
//
//   dot [i,k], [k,j] -> [i,j] over {x}:   i over x   |   j over x   |   k over x, then all-reduce
//                                         k over x, then reduce-scatter of i (or j)   |   replicated
#pragma once

#include <vector>

#include "auto_sharding/reshard_costs.h"
#include "strategy/program_estimate.h"

namespace tessera {

struct OpChoice {
  Shardings needed;    // by operand leaf
  Shardings results;   // by result leaf, after partial values are reduced
  double seconds = 0;  // of one run: work, halos and the reduction of partial values
};

/// Every assignment of mesh axes to factors of the op that its kind allows, and for partial results every reduction into
/// a sharded or replicated result. An axis that divides some factor evenly is not assigned to others that it does not
/// divide: padding only costs.
std::vector<OpChoice> op_choices(const Mesh& mesh, const OpSignature& signature, const ProgramEstimator& estimator,
                                 ReshardCosts& reshards);

/// Every assignment of mesh axes to dims of the type; the first one is replicated.
std::vector<Sharding> storage_choices(const Mesh& mesh, const Type& type);

}  // namespace tessera

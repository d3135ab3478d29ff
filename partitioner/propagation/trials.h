// SPDX-License-Identifier: Apache-2.0
// Changes of an outcome of propagation that may cost less: at every reshard, the value before it may have the sharding
// after it, or the result of its consumer may have the sharding before it.
//
//   %e {rows,-} -> %d = divide(%e {-,rows}, ..)       try %e {-,rows}; try %d {rows,-}
//   %e {rows,-} -> %d = dot(%e {-,-}, ..)             try %d {rows,-}
#pragma once

#include <vector>

#include "propagation/propagation_graph.h"
#include "strategy/op_decisions.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// A form of the program; some ops may have been expanded.
struct Variant {
  Program program;
  PropagationGraph graph;
};

/// A change to try: equal values at equal reshards, such as those of a model's layers, get this sharding together.
struct ReshardTrial {
  double cost = 0;   // of the reshards that it would remove
  double saved = 0;  // of those that an annotation requests and nothing else reads
  std::vector<int> slots;
  Sharding sharding;
  std::vector<int> kind;  // equal for equal changes
};

/// The trials for a program after insert_reshards(), the most expensive reshards first.
std::vector<ReshardTrial> trials_for(const Variant& variant, const Program& resharded, DecisionMemo& memo,
                                     const Topology& links);

}  // namespace tessera

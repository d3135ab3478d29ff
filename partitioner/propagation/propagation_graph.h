// SPDX-License-Identifier: Apache-2.0
// What propagation works on: slots (leaves of values that must lie alike) joined by edges (ops with their factors).
// get-tuple-element, tuple and opt-barrier share slots with their operands; a while's result shares them with the parameters of
// its body and condition; other data flow (initial values, body results, branch arguments) are identity edges.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/ir/op_def.h"

namespace tessera {

struct PropagationSlot {
  Type type;
  Sharding sharding;
  bool fixed = false;  // given by the program: its text or API
  bool open = true;    // some dim may still gain axes
  /// Dims whose priority has not come yet: until then they have no axes and gain none, but nobody else takes theirs.
  std::vector<std::pair<int, DimSharding>> waiting{};
  int why_edge = -1;  // the edge through which the last axes came
};

struct PropagationEdge {
  std::shared_ptr<const FactorMap> map;
  /// The same with blocked dims that operands and results have; null when there are none. `map` lets shardings pass along these.
  std::shared_ptr<const FactorMap> strict;
  int map_id = 0;  // equal for equal maps
  std::vector<int> operands;
  std::vector<int> results;
  const Instruction* instruction = nullptr;  // of the program the graph is built from
  bool passes_all = false;                   // every factor is kept: elementwise and moves
  bool broadcasts = false;                   // a result has factors no operand has
  int depth = 0;                             // ops on the longest way here from parameters and constants
};

struct PropagationGraph {
  Mesh mesh;
  std::vector<PropagationSlot> slots;
  std::vector<PropagationEdge> edges;
  std::vector<std::vector<int>> edges_of_slot;
  /// Slot of each leaf of each value of each computation (empty for computations that are not partitioned).
  std::vector<std::vector<std::vector<int>>> leaf_slots;
};

PropagationGraph build_propagation_graph(const Program& program);
/// The program with every value annotated as propagation left the graph's slots: given shardings closed, derived ones open, each with
/// its reason.
Program write_shardings(const Program& program, const PropagationGraph& graph,
                        const std::vector<PropagationSlot>& slots);

}  // namespace tessera

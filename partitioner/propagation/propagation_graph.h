// SPDX-License-Identifier: Apache-2.0
// The input of propagation: slots (leaves of values that must have equal shardings) connected by edges (ops with their
// factors). get-tuple-element, tuple and opt-barrier share slots with their operands. A while shares the slots of its
// result with the parameters of its body and condition. Other data flow (initial values, body results, branch
// arguments) becomes identity edges.
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
  /// Dims whose priority has not come yet. Until then they have no axes and gain none, but their axes are reserved.
  std::vector<std::pair<int, DimSharding>> waiting{};
  int why_edge = -1;  // the edge through which the last axes came
};

struct PropagationEdge {
  std::shared_ptr<const FactorMap> map;
  /// The map in which dims that are blocked in both operands and results stay blocked; null if there are none. `map`
  /// lets shardings propagate along them.
  std::shared_ptr<const FactorMap> strict;
  int map_id = 0;  // equal maps have equal numbers
  std::vector<int> operands;
  std::vector<int> results;
  const Instruction* instruction = nullptr;  // of the program from which the graph was built
  /// The computation of the instruction, if the edge is an op: -1 for other data flow.
  ComputationId computation = -1;
  bool passes_all = false;  // every factor is kept, as in elementwise and data movement ops
  bool broadcasts = false;  // a result has factors that no operand has
  int depth = 0;            // the number of ops on the longest path from parameters and constants
};

struct PropagationGraph {
  Mesh mesh;
  std::vector<PropagationSlot> slots;
  std::vector<PropagationEdge> edges;
  std::vector<std::vector<int>> edges_of_slot;
  /// Slot of each leaf of each value of each computation (empty for computations that are not partitioned).
  std::vector<std::vector<std::vector<int>>> leaf_slots;
};

/// Builds the graph of a program. Slots begin with the annotations of the program.
PropagationGraph build_propagation_graph(const Program& program);
/// The program with every value annotated with the sharding of its slot and the reason for it. Given shardings are
/// closed, derived ones are open.
Program write_shardings(const Program& program, const PropagationGraph& graph,
                        const std::vector<PropagationSlot>& slots);

}  // namespace tessera

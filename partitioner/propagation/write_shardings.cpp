// SPDX-License-Identifier: Apache-2.0
// Writes the result of propagation into the program as annotations.
#include <algorithm>

#include "pipeline/origins.h"
#include "propagation/op_signatures.h"
#include "propagation/propagate.h"
#include "propagation/propagation_graph.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

bool is_open(const Sharding& sharding) {
  return std::any_of(sharding.dims.begin(), sharding.dims.end(), [](const DimSharding& d) { return d.open; });
}

// The annotation with the axes that propagation chose for its open dims. It binds as if the user had written it.
Sharding settled(const Sharding& given, const Sharding& found) {
  const bool specifies_nothing =
      std::all_of(given.dims.begin(), given.dims.end(), [](const DimSharding& d) { return d.open && d.axes.empty(); });
  return specifies_nothing ? found : found.closed();
}

class ShardingWriter {
 public:
  ShardingWriter(const PropagationGraph& graph, const std::vector<PropagationSlot>& slots)
      : graph_(graph), slots_(slots) {}

  void write(Instruction& instruction, const std::vector<int>& slots, bool is_entry) {
    Shardings leaves;
    leaves.reserve(slots.size());
    for (const int slot : slots) {
      leaves.push_back(at(slots_, slot).sharding);
      if (const int why = at(slots_, slot).why_edge; why >= 0) {
        const Instruction& from = *at(graph_.edges, why).instruction;
        instruction.notes = with_frontend_attribute(instruction.notes, kWhyAttribute,
                                                    fmt::format("through {} %{}", from.op->name, shown_name(from)));
      }
    }
    if (!instruction.sharding && instruction.op->role == Role::kParameter && !slots.empty() &&
        at(slots_, slots.front()).fixed && is_entry)
      instruction.notes = with_frontend_attribute(instruction.notes, kWhyAttribute, std::string(kNotAnnotated));
    const bool given = instruction.sharding && instruction.sharding->size() == leaves.size();
    // A tuple with its own annotation keeps it and reshards its elements.
    for (int i = 0; given && i < isize(leaves); ++i) {
      const Sharding& mine = at(*instruction.sharding, i);
      if (mine.kind == Sharding::Kind::kUnknown) continue;
      at(leaves, i) = is_open(mine) ? settled(mine, at(leaves, i)) : mine;
    }
    for (auto& leaf : leaves)
      for (auto& dim : leaf.dims) dim.priority.reset();  // propagation has used the priorities
    instruction.sharding = shared_.shared(make_shardings(std::move(leaves)));
  }

 private:
  const PropagationGraph& graph_;
  const std::vector<PropagationSlot>& slots_;
  SharedShardings shared_;
};

}  // namespace

Program write_shardings(const Program& program, const PropagationGraph& graph,
                        const std::vector<PropagationSlot>& slots) {
  Program out = program;
  ShardingWriter writer(graph, slots);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (at(graph.leaf_slots, c).empty()) continue;
    auto computation = std::make_shared<Computation>(program[c]);
    for (Id id = 0; id < computation->size(); ++id)
      writer.write(at(computation->instructions, id), at(at(graph.leaf_slots, c), id), c == program.entry);
    at(out.computations, c) = std::move(computation);
  }
  return out;
}

}  // namespace tessera

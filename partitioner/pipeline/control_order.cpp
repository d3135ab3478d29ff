// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control_order.h"

#include <algorithm>

#include "tessera/ir/op_def.h"

namespace tessera {

void ControlOrder::set(Id old, Id first, const Builder& builder, const LeafValues& made) {
  Made& out = at(made_, old);
  out.first = first;
  for (const Value& value : made) {
    Id id = value.id;
    while (builder[id].op->role == Role::kGetTupleElement) id = builder[id].operands.front();
    out.ids.push_back(id);
  }
  // An op without result leaves is represented by its own instructions.
  for (Id id = first; made.empty() && id < builder.computation().size(); ++id) out.ids.push_back(id);
}

void ControlOrder::keep(Computation& made) const {
  for (Id old = 0; old < old_.size(); ++old) {
    if (old_[old].control_predecessors.empty()) continue;
    for (const Id id : at(made_, old).ids) {
      if (id < at(made_, old).first) continue;
      auto& waits_for = at(made.instructions, id).control_predecessors;
      for (const Id predecessor : old_[old].control_predecessors)
        for (const Id before : at(made_, predecessor).ids)
          if (before < id && made[before].op->role != Role::kParameter) waits_for.push_back(before);
      std::sort(waits_for.begin(), waits_for.end());
      waits_for.erase(std::unique(waits_for.begin(), waits_for.end()), waits_for.end());
    }
  }
}

}  // namespace tessera

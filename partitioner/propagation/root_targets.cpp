// SPDX-License-Identifier: Apache-2.0
#include "propagation/root_targets.h"

#include <algorithm>
#include <boost/pending/disjoint_sets.hpp>

#include "pipeline/aliases.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"

namespace tessera {

Shardings closed(Shardings leaves) {
  for (auto& leaf : leaves) leaf = leaf.closed().without_partial();
  return leaves;
}

namespace {

template <class F>
void for_each_caller(const Program& program, const std::vector<bool>& used, F&& f) {
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (!at(used, c)) continue;
    for (const auto& instruction : program[c].instructions) {
      const auto role = instruction.op->role;
      if (role == Role::kWhile || role == Role::kCall || role == Role::kConditional) f(instruction);
    }
  }
}

// The shardings of the entry results: as annotated, including unreduced ones; without annotation that of the parameter
// whose memory the result takes, else replicated, unless propagation may choose.
Shardings entry_results(const Program& program) {
  const auto& entry = program.entry_computation();
  const auto& root = entry[entry.root];
  Shardings out;
  const auto leaves = root.type.leaves();
  const auto donors = shardings_of_donors(program);
  const Mesh mesh = program.meshes.empty() ? Mesh() : program.meshes.front();
  for (int i = 0; i < isize(leaves); ++i) {
    const auto& sharding = at(*root.sharding, i);
    const bool open =
        std::any_of(sharding.dims.begin(), sharding.dims.end(), [](const DimSharding& d) { return d.open; });
    const auto& allowed = program.propagate_to_output;
    const bool free = allowed.size() == 1 ? allowed[0] : (i < isize(allowed) && allowed[static_cast<std::size_t>(i)]);
    const int ndim = at(leaves, i).is_array() ? at(leaves, i).ndim() : 0;
    const Sharding* donor = at(donors, i);
    const Sharding fallback = donor != nullptr ? donor->without_partial() : Sharding::replicated(mesh, ndim);
    out.push_back((open && !free && !sharding.is_partial() ? fallback : sharding).closed());
  }
  return out;
}

}  // namespace

RootTargets root_targets(const Program& program, const std::vector<bool>& used) {
  // Branches of one conditional must return equal shardings, and so must all conditionals that share a branch.
  boost::disjoint_sets_with_storage<> groups(program.computations.size());
  for_each_caller(program, used, [&](const Instruction& caller) {
    if (caller.op->role != Role::kConditional) return;
    for (const ComputationId branch : caller.called) groups.union_set(caller.called.front(), branch);
  });
  // A loop's body must return its state. Of other callers the first determines the sharding, and the others reshard the
  // result.
  RootTargets by_group(program.computations.size());
  for_each_caller(program, used, [&](const Instruction& loop) {
    if (loop.op->role != Role::kWhile) return;
    auto& target = at(by_group, groups.find_set(loop.called[1]));
    const Shardings state = closed(*loop.sharding);
    require(
        !target || *target == state,
        "while %{}: its body %{} is also used by another loop with other shardings; give each loop its own computation",
        loop.name, program[loop.called[1]].name);
    target = state;
  });
  for_each_caller(program, used, [&](const Instruction& caller) {
    if (caller.op->role == Role::kWhile) return;
    auto& target = at(by_group, groups.find_set(caller.called.front()));
    if (!target) target = closed(*caller.sharding);
  });
  RootTargets out(program.computations.size());
  for (ComputationId c = 0; c < isize(program.computations); ++c) at(out, c) = at(by_group, groups.find_set(c));
  for_each_caller(program, used, [&](const Instruction& loop) {
    if (loop.op->role == Role::kWhile)
      at(out, loop.called[0]) =
          Shardings{Sharding::replicated(program.meshes.empty() ? Mesh() : program.meshes.front(), 0)};
  });
  at(out, program.entry) = entry_results(program);
  return out;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "marks.h"
#include "tessera/base/text.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

// Returns the calls that can be inlined. A call stays if it runs on another thread or has a control dependency.
std::vector<bool> inlinable_calls(const Program& program, const Computation& computation) {
  std::vector<bool> out(computation.instructions.size(), true);
  for (const Instruction& instruction : computation.instructions)
    for (const Id before : instruction.control_predecessors) at(out, before) = false;
  for (Id id = 0; id < computation.size(); ++id) {
    const Instruction& call = computation[id];
    const bool goes = call.op->role == Role::kCall && call.control_predecessors.empty() &&
                      program[call.called.front()].execution_thread.empty();
    if (!goes) at(out, id) = false;
  }
  return out;
}

// A chain of calls can double the program at each level. Checks the number of instructions of each computation after
// inlining.
void check_size(const Program& program, const std::unordered_map<const Computation*, std::vector<bool>>& calls) {
  constexpr double kMost = 1 << 23;
  std::vector<double> sizes;
  for (const ComputationRef& computation : program.computations) {
    const auto found = calls.find(computation.get());
    auto size = static_cast<double>(computation->size());
    for (Id id = 0; found != calls.end() && id < computation->size(); ++id)
      if (at(found->second, id)) size += at(sizes, (*computation)[id].called.front());
    require(size <= kMost, "{} has {:.3g} instructions once its calls are inlined, more than {:.0f}", computation->name,
            size, kMost);
    sizes.push_back(size);
  }
}

Value inlined(ComputationRewriter& r, Id id) {
  const Instruction& call = r.from()[id];
  const ComputationRef callee = at(r.builder().program().program().computations, r.callee(call.called.front()));
  std::vector<Value> values(callee->instructions.size());
  for (std::size_t k = 0; k < callee->parameters.size(); ++k)
    at(values, callee->parameters[k]) = marked(r.mapped(call.operands[k]), (*callee)[callee->parameters[k]].sharding);
  for (Id inner = 0; inner < callee->size(); ++inner) {
    Instruction copy = (*callee)[inner];
    if (copy.op->role == Role::kParameter) continue;
    for (Id& operand : copy.operands) operand = at(values, operand).id;
    for (Id& before : copy.control_predecessors) before = at(values, before).id;
    at(values, inner) = r.builder().append(std::move(copy));
  }
  return marked(at(values, callee->root), call.sharding);
}

}  // namespace

Program inline_calls(const Program& program) {
  std::unordered_map<const Computation*, std::vector<bool>> calls;
  for (const ComputationRef& computation : program.computations) {
    std::vector<bool> found = inlinable_calls(program, *computation);
    if (std::find(found.begin(), found.end(), true) != found.end()) calls[computation.get()] = std::move(found);
  }
  if (calls.empty()) return program;
  check_size(program, calls);
  const auto rule = [&](ComputationRewriter& r, Id id) {
    const auto found = calls.find(&r.from());
    return found != calls.end() && at(found->second, id) ? inlined(r, id) : Value{};
  };
  return remove_dead_code(rewrite(program, rule, [&](const Computation& c) { return calls.contains(&c); }));
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Removes unused operands and results of conditionals:
//
//   (a, b) = conditional(p, (x, y), (z))     first: (x + 1, x * x)   second: (z, z)
//
// If nothing reads b and the first branch does not read y: (a) = conditional(p, (x), (z)).
#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <map>
#include <utility>

#include "simplify/tuple_elements.h"
#include "tessera/base/text.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

bool is_conditional(const Instruction& instruction) { return instruction.op->role == Role::kConditional; }
/// The elements of a branch's argument and of its result that stay, if they are tuples.
struct BranchPlan {
  ComputationId branch = -1;
  Elements argument;
  Elements result;
};

// Returns the elements that a branch reads of its argument, or nothing if the argument is not a tuple.
Elements argument_of(const Computation& branch) {
  auto read = elements_read(branch, is_parameter);
  const auto found = read.find(branch.parameters.front());
  if (found == read.end()) return {};
  if (found->second.none()) found->second = Elements(found->second.size(), true);  // do not create an empty tuple
  return found->second;
}

Instruction with_some(Instruction tuple, const Elements& kept) {
  tuple.sharding = kept.of(tuple.type, tuple.sharding);
  tuple.type = kept.of(tuple.type);
  return tuple;
}

// Returns a tuple of the `kept` elements of a tuple value.
Value some_of(Value tuple, const Elements& kept) {
  if (kept.all()) return tuple;
  Builder& builder = *tuple.builder;
  const Instruction made = tuple.instruction();
  if (made.op->role == Role::kTuple) {
    Instruction shorter = with_some(made, kept);
    shorter.operands = kept.of(made.operands);
    return builder.append(std::move(shorter));
  }
  std::vector<Value> elements;
  for (int e = 0; e < isize(made.type.elements()); ++e)
    if (kept.has(e))
      elements.push_back(
          with_sharding(ops::get_tuple_element(tuple, e), element_sharding(made.type, made.sharding, e)));
  return with_sharding(ops::tuple(builder, elements), kept.of(made.type, made.sharding));
}

ComputationId rebuilt(ProgramBuilder& program, const Computation& from, const BranchPlan& plan) {
  Builder builder = program.computation(from.name);
  const Id parameter = from.parameters.front();
  std::vector<Id> new_ids(from.instructions.size(), -1);
  const bool shorter = plan.argument.size() > 0;
  at(new_ids, parameter) = builder.append(shorter ? with_some(from[parameter], plan.argument) : from[parameter]).id;
  for (Id id = 0; id < from.size(); ++id) {
    if (id == parameter) continue;
    Instruction copy = from[id];
    if (shorter && copy.op->role == Role::kGetTupleElement && copy.operands.front() == parameter)
      copy.attributes = make_attributes(IndexAttributes{plan.argument.place(element_index(copy))});
    for (Id& operand : copy.operands) operand = at(new_ids, operand);
    for (Id& before : copy.control_predecessors) before = at(new_ids, before);
    at(new_ids, id) = builder.append(std::move(copy)).id;
  }
  Value root = builder.value(at(new_ids, from.root));
  if (plan.result.size() > 0) root = some_of(root, plan.result);
  return program.add(std::move(builder), root);
}

/// One pass over a program, inner conditionals first.
class BranchSimplifier {
 public:
  explicit BranchSimplifier(const Program& program)
      : program_(program), with_effects_(computations_with_effects(program)) {}
  Program run() {
    Program out = rewrite(
        program_, [this](ComputationRewriter& r, Id id) { return rule(r, id); },
        [](const Computation& c) { return std::any_of(c.instructions.begin(), c.instructions.end(), is_conditional); });
    return changed_ ? simplify(out) : program_;
  }
  [[nodiscard]] bool changed() const { return changed_; }

 private:
  Value rule(ComputationRewriter& r, Id id) {
    const Instruction& instruction = r.from()[id];
    if (caller_ != &r.from()) {
      caller_ = &r.from();
      read_ = elements_read(r.from(), is_conditional);
      changed_results_.clear();
      changed_results_.resize(r.from().instructions.size());
    }
    if (instruction.op->role == Role::kGetTupleElement && at(changed_results_, instruction.operands.front())) {
      Instruction get = r.translated(id);
      get.attributes =
          make_attributes(IndexAttributes{read_.at(instruction.operands.front()).place(element_index(instruction))});
      return r.builder().append(std::move(get));
    }
    return is_conditional(instruction) && !has_side_effect(instruction, with_effects_) ? shortened(r, id) : Value{};
  }

  Value shortened(ComputationRewriter& r, Id id) {
    Builder& builder = r.builder();
    Instruction conditional = r.translated(id);
    const auto read = read_.find(id);
    const bool fewer_results = read != read_.end() && !read->second.all() && !read->second.none();
    bool changes = fewer_results;
    for (std::size_t b = 0; b < conditional.called.size(); ++b) {
      const ComputationRef branch = at(builder.program().program().computations, conditional.called[b]);
      BranchPlan plan{conditional.called[b], argument_of(*branch), fewer_results ? read->second : Elements()};
      const bool fewer_arguments = plan.argument.size() > 0 && !plan.argument.all();
      if (!fewer_results && !fewer_arguments) continue;
      changes = true;
      conditional.called[b] = made(builder.program(), *branch, plan);
      if (!fewer_arguments) continue;
      Id& argument = at(conditional.operands, b + 1);
      argument = some_of(builder.value(argument), plan.argument).id;
    }
    if (!changes) return {};
    changed_ = true;
    if (!fewer_results) return builder.append(std::move(conditional));
    at(changed_results_, id) = true;
    return builder.append(with_some(std::move(conditional), read->second));
  }

  // Conditionals that share a branch and read the same elements of its result share the new branch.
  ComputationId made(ProgramBuilder& program, const Computation& from, const BranchPlan& plan) {
    auto& known = known_[plan.branch];
    for (const auto& [other, branch] : known)
      if (other.argument == plan.argument && other.result == plan.result) return branch;
    const ComputationId branch = rebuilt(program, from, plan);
    known.emplace_back(plan, branch);
    return branch;
  }

  const Program& program_;
  const std::vector<bool> with_effects_;
  bool changed_ = false;
  const Computation* caller_ = nullptr;
  std::unordered_map<Id, Elements> read_;  // of the caller's conditionals
  boost::dynamic_bitset<> changed_results_;
  std::map<ComputationId, std::vector<std::pair<BranchPlan, ComputationId>>> known_;
};

}  // namespace

Program simplify_branches(const Program& program) {
  Program out = program;
  while (true) {  // a branch that returns less may also read less
    BranchSimplifier round(out);
    Program next = round.run();
    if (!round.changed()) return out;
    out = std::move(next);
  }
}

}  // namespace tessera

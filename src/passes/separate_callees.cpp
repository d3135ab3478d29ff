// SPDX-License-Identifier: Apache-2.0
// Gives loops and conditionals that share a computation one computation each:
//
//   a = while(x), condition=c, body=b      b = while(y), condition=c, body=b
//
// Otherwise both loops would need the same shardings. Reductions and other scalar computations stay shared.
#include <boost/dynamic_bitset.hpp>

#include "tessera/ir/builder.h"
#include "tessera/ir/op_def.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

bool runs_callees(const Instruction& instruction) {
  const Role role = instruction.op->role;
  return role == Role::kWhile || role == Role::kConditional || role == Role::kCall;
}

class Separator {
 public:
  explicit Separator(const Program& program)
      : program_(program), out_(header_of(program)), taken_(program.computations.size()) {}

  Program run() {
    for (ComputationId c = 0; c < isize(program_.computations); ++c) {
      size_ += program_[c].size();
      new_ids_.push_back(with_own_callees(c));
    }
    return out_.finish(at(new_ids_, program_.entry));
  }

 private:
  static Program header_of(Program program) {
    program.computations.clear();
    return program;
  }

  // Copies a computation and gives the copy callees that no other computation runs.
  ComputationId with_own_callees(ComputationId id) {
    auto copy = std::make_shared<Computation>(program_[id]);
    for (Instruction& instruction : copy->instructions)
      for (ComputationId& callee : instruction.called)
        callee = runs_callees(instruction) ? own(callee) : at(new_ids_, callee);
    return out_.add(ComputationRef(std::move(copy)));
  }

  // Nested loops can double the program at each level, so the total of the copies is limited. Beyond it, callees stay
  // shared.
  ComputationId own(ComputationId callee) {
    constexpr Id kMost = 1 << 20;
    if (!taken_.test_set(static_cast<std::size_t>(callee)) || size_ + program_[callee].size() > kMost)
      return at(new_ids_, callee);
    size_ += program_[callee].size();
    return with_own_callees(callee);
  }

  const Program& program_;
  ProgramBuilder out_;
  std::vector<ComputationId> new_ids_;
  boost::dynamic_bitset<> taken_;
  Id size_ = 0;
};

bool shares_callees(const Program& program) {
  boost::dynamic_bitset<> taken(program.computations.size());
  for (const ComputationRef& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      if (runs_callees(instruction))
        for (const ComputationId callee : instruction.called)
          if (taken.test_set(static_cast<std::size_t>(callee))) return true;
  return false;
}

}  // namespace

Program separate_callees(const Program& program) {
  return shares_callees(program) ? Separator(program).run() : program;
}

}  // namespace tessera

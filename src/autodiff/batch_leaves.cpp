// SPDX-License-Identifier: Apache-2.0
#include "batch_leaves.h"

#include <algorithm>

#include "loop_support.h"
#include "reverse_pass.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/structural.h"

namespace tessera::autodiff {

bool any_leaf(const BatchedLeaves& leaves) { return std::find(leaves.begin(), leaves.end(), true) != leaves.end(); }

BatchedLeaves union_of(BatchedLeaves a, const BatchedLeaves& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i] || b[i];
  return a;
}

namespace {

class LeafAnalysis {
 public:
  LeafAnalysis(const Program& program, const Computation& computation)
      : program_(program), computation_(computation), leaves_(computation.instructions.size()) {}

  BatchedLeaves run(const std::vector<BatchedLeaves>& parameters) {
    for (std::size_t k = 0; k < parameters.size(); ++k) at(leaves_, computation_.parameters[k]) = parameters[k];
    for (Id id = 0; id < computation_.size(); ++id)
      if (computation_[id].op->role != Role::kParameter) at(leaves_, id) = of(computation_[id]);
    return at(leaves_, computation_.root);
  }

 private:
  [[nodiscard]] std::vector<BatchedLeaves> operands_of(const Instruction& instruction) const {
    std::vector<BatchedLeaves> out;
    for (const Id operand : instruction.operands) out.push_back(at(leaves_, operand));
    return out;
  }
  [[nodiscard]] BatchedLeaves of(const Instruction& instruction) const {
    const auto operands = operands_of(instruction);
    switch (instruction.op->role) {
      case Role::kTuple:
      case Role::kOptBarrier: {
        BatchedLeaves out;
        for (const BatchedLeaves& operand : operands) out.insert(out.end(), operand.begin(), operand.end());
        return out;
      }
      case Role::kGetTupleElement: {
        const Type& tuple = computation_[instruction.operands[0]].type;
        const auto first =
            operands[0].begin() + tuple.leaf_offset(attributes_as<IndexAttributes>(instruction.attributes).index);
        return {first, first + instruction.type.leaf_count()};
      }
      case Role::kCall: return batched_results(program_, instruction, operands);
      case Role::kWhile: return batched_state(program_, instruction, operands[0]).leaves;
      case Role::kConditional: {
        BatchedLeaves out(static_cast<std::size_t>(instruction.type.leaf_count()), any_leaf(operands[0]));
        for (std::size_t k = 0; k < instruction.called.size(); ++k)
          out = union_of(std::move(out), batched_root(program_, program_[instruction.called[k]], {operands[k + 1]}));
        return out;
      }
      default: break;
    }
    return BatchedLeaves(static_cast<std::size_t>(instruction.type.leaf_count()),
                         std::any_of(operands.begin(), operands.end(), any_leaf));
  }

  const Program& program_;
  const Computation& computation_;
  std::vector<BatchedLeaves> leaves_;
};

// The leaves that the body may change.
BatchedLeaves changed_leaves(const Computation& body) {
  const Instruction& root = body[body.root];
  BatchedLeaves out(static_cast<std::size_t>(root.type.leaf_count()), true);
  if (root.op->role != Role::kTuple || isize(root.operands) != isize(out)) return out;  // no flat tuple
  for (int e = 0; e < isize(out); ++e) out[static_cast<std::size_t>(e)] = !passes_on(body, e);
  return out;
}

}  // namespace

BatchedLeaves batched_root(const Program& program, const Computation& computation,
                           const std::vector<BatchedLeaves>& parameters) {
  return LeafAnalysis(program, computation).run(parameters);
}

BatchedLeaves batched_results(const Program& program, const Instruction& call,
                              const std::vector<BatchedLeaves>& operands) {
  BatchedLeaves out = batched_root(program, program[call.called[0]], operands);
  const std::string* gradient = call.frontend_attribute(kGradientAttribute);
  const bool is_shared = std::none_of(operands.begin(), operands.end(), any_leaf);
  if (gradient == nullptr || gradient->starts_with('!') || is_shared) return out;
  std::fill_n(out.begin(), call_gradient(*gradient).count, true);
  return out;
}

BatchedState batched_state(const Program& program, const Instruction& loop, BatchedLeaves init) {
  const Computation& condition = program[loop.called[0]];
  const Computation& body = program[loop.called[1]];
  BatchedState out{std::move(init), false};
  while (true) {
    BatchedLeaves next = union_of(out.leaves, batched_root(program, body, {out.leaves}));
    out.has_batched_condition = any_leaf(batched_root(program, condition, {out.leaves}));
    if (out.has_batched_condition) next = union_of(std::move(next), changed_leaves(body));
    if (next == out.leaves) return out;
    out.leaves = std::move(next);
  }
}

}  // namespace tessera::autodiff

// SPDX-License-Identifier: Apache-2.0
#include "nested_batching.h"

#include <algorithm>

#include "loop_support.h"
#include "reverse_pass.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/loops.h"
#include "tessera/ops/structural.h"

namespace tessera::autodiff {
namespace {

ComputationRef computation_of(Builder& into, ComputationId id) { return at(into.program().program().computations, id); }

// The type for several examples, and which leaves are batched.
struct BatchedType {
  Type type;
  BatchedLeaves leaves;
};
BatchedType type_of(const Batched& x) { return {x.value.type(), x.leaves}; }

Batched batched_parameter(Builder& inner, int number, const BatchedType& of) {
  return {ops::parameter(inner, number, of.type), of.leaves};
}

// on_true for the examples for which the predicate [examples] is true. The leaves of both are batched alike.
Value selected(Value predicate, Value on_true, Value on_false) {
  const Dims dims = on_true.type().dims();
  return ops::select(dims.size() == 1 ? predicate : ops::broadcast(predicate, dims, {0}), on_true, on_false);
}

// The elements of a flat tuple, or the array itself.
std::vector<Value> leaf_values(Value x) { return x.type().is_tuple() ? ops::elements_of(x) : std::vector<Value>{x}; }

Value rebuilt(const Value& like, const std::vector<Value>& leaves) {
  return like.type().is_tuple() ? ops::tuple(*like.builder, leaves) : leaves.front();
}

}  // namespace

// ---- while ----------------------------------------------------------------------------------------------------------

namespace {

Value any_of(Value predicates) { return ops::reduce(predicates, Reduction::kOr, {0}); }

bool is_flat(const Type& type) { return type.leaf_count() == (type.is_tuple() ? isize(type.elements()) : 1); }

}  // namespace

Batched batched_while(Builder& into, const Instruction& instruction, const Batched& init, std::int64_t examples) {
  const ComputationRef condition = computation_of(into, instruction.called[0]);
  const ComputationRef body = computation_of(into, instruction.called[1]);
  const BatchedState state = batched_state(into.program().program(), instruction, init.leaves);
  const Batched start = with_batched(init, state.leaves, examples);
  Builder first = into.program().computation(condition->name + ".examples");
  const Batched verdict = batched(first, *condition, {batched_parameter(first, 0, type_of(start))}, examples);
  const Value goes_on = state.has_batched_condition ? any_of(verdict.value) : verdict.value;
  const ComputationId condition_id = into.program().add(std::move(first), goes_on);
  Builder second = into.program().computation(body->name + ".examples");
  const Batched now = batched_parameter(second, 0, type_of(start));
  Value next = with_batched(batched(second, *body, {now}, examples), state.leaves, examples).value;
  if (state.has_batched_condition) {
    require(is_flat(instruction.type), "while: needs a state that is a flat tuple of arrays, got {}", instruction.type);
    const Value runs = batched(second, *condition, {now}, examples).value;
    const auto before = leaf_values(now.value);
    std::vector<Value> after = leaf_values(next);
    for (std::size_t e = 0; e < after.size(); ++e)
      if (state.leaves[e]) after[e] = selected(runs, after[e], before[e]);
    next = rebuilt(next, after);
  }
  const ComputationId body_id = into.program().add(std::move(second), next);
  return {ops::while_loop(start.value, condition_id, body_id), state.leaves};
}

// ---- conditional ----------------------------------------------------------------------------------------------------

namespace {

// Computes all branches and selects the results. An index that is no branch selects the last one.
Batched select_branch(Builder& into, const Instruction& instruction, const std::vector<Batched>& operands,
                      std::int64_t examples) {
  const Value index = operands.front().value;
  const BatchedLeaves all(static_cast<std::size_t>(instruction.type.leaf_count()), true);
  require(is_flat(instruction.type), "conditional: needs a result that is a flat tuple of arrays, got {}",
          instruction.type);
  Value result;
  for (int b = isize(instruction.called) - 1; b >= 0; --b) {
    const ComputationRef branch = computation_of(into, at(instruction.called, b));
    const NotesRef notes = into.default_notes;
    const Batched own = with_batched(batched(into, *branch, {at(operands, b + 1)}, examples), all, examples);
    into.default_notes = notes;
    if (result.is_null()) {
      result = own.value;
      continue;
    }
    const bool is_pred = index.type().dtype() == DType::kPred;
    const Value chosen = is_pred ? index : ops::compare(index, ops::full(into, index.type(), b), CompareDirection::kEq);
    std::vector<Value> leaves;
    const auto on_true = leaf_values(own.value);
    const auto on_false = leaf_values(result);
    for (std::size_t k = 0; k < on_true.size(); ++k) leaves.push_back(selected(chosen, on_true[k], on_false[k]));
    result = rebuilt(own.value, leaves);
  }
  return {result, all};
}

}  // namespace

Batched batched_conditional(Builder& into, const Instruction& instruction, const std::vector<Batched>& operands,
                            std::int64_t examples) {
  if (operands.front().any()) return select_branch(into, instruction, operands, examples);
  BatchedLeaves leaves(static_cast<std::size_t>(instruction.type.leaf_count()), false);
  const Program& program = into.program().program();
  for (std::size_t b = 0; b < instruction.called.size(); ++b)
    leaves =
        union_of(std::move(leaves), batched_root(program, program[instruction.called[b]], {operands[b + 1].leaves}));
  std::vector<Value> values;
  std::vector<ComputationId> branches;
  for (std::size_t b = 0; b < instruction.called.size(); ++b) {
    const ComputationRef branch = computation_of(into, instruction.called[b]);
    Builder inner = into.program().computation(branch->name + ".examples");
    const Batched own = batched(inner, *branch, {batched_parameter(inner, 0, type_of(operands[b + 1]))}, examples);
    const Value root = with_batched(own, leaves, examples).value;
    branches.push_back(into.program().add(std::move(inner), root));
    values.push_back(operands[b + 1].value);
  }
  return {ops::conditional(operands.front().value, values, branches), leaves};
}

// ---- call -----------------------------------------------------------------------------------------------------------

namespace {

// The sum of the gradients of all examples, for an operand that they share.
Value summed(Value gradients) {
  const DType dtype = gradients.type().dtype();
  const DType wide = is_float(dtype) && dtype_size(dtype) < 4 ? DType::kF32 : dtype;
  return ops::convert(ops::reduce(ops::convert(gradients, wide), Reduction::kSum, {0}), dtype);
}

// The computation of the gradient of a call (kGradientAttribute) for several examples.
ComputationId batched_gradient(Builder& into, const Computation& gradient, const std::vector<BatchedType>& operands,
                               const std::vector<BatchedType>& results, int count, std::int64_t examples) {
  Builder inner = into.program().computation(gradient.name + ".examples");
  std::vector<Batched> arguments;
  const auto add = [&](const BatchedType& of) { arguments.push_back(batched_parameter(inner, isize(arguments), of)); };
  for (const BatchedType& operand : operands) add(operand);
  for (const BatchedType& result : results) add(result);
  for (int k = 0; k < count; ++k)
    if (has_float_leaf(at(results, k).type)) add(at(results, k));
  const Batched root = batched(inner, gradient, arguments, examples);
  const auto gradients = ops::elements_of(root.value);
  std::vector<Value> out;
  int next = 0;
  for (const BatchedType& operand : operands) {
    if (!has_float_leaf(operand.type)) continue;
    const Batched own{at(gradients, next), {root.leaves[static_cast<std::size_t>(next)]}};
    const bool is_shared = !any_leaf(operand.leaves);
    out.push_back(own.any() && is_shared ? summed(own.value) : with_batched(own, operand.leaves, examples).value);
    ++next;
  }
  const Value all = ops::tuple(inner, out);
  return into.program().add(std::move(inner), all);
}

}  // namespace

// Without kGradientAttribute, the instructions of the callee replace the call.
Batched batched_call(Builder& into, const Instruction& instruction, const std::vector<Batched>& operands,
                     std::int64_t examples) {
  const ComputationRef callee = computation_of(into, instruction.called[0]);
  const std::string* text = instruction.frontend_attribute(kGradientAttribute);
  if (text == nullptr) return batched(into, *callee, operands, examples);
  Builder inner = into.program().computation(callee->name + ".examples");
  std::vector<Batched> arguments;
  std::vector<BatchedType> types;
  std::vector<Value> values;
  std::vector<BatchedLeaves> leaves;
  for (const Batched& operand : operands) {
    types.push_back(type_of(operand));
    leaves.push_back(operand.leaves);
    arguments.push_back(batched_parameter(inner, isize(arguments), types.back()));
    values.push_back(operand.value);
  }
  const BatchedLeaves wanted = batched_results(into.program().program(), instruction, leaves);
  const Batched root = with_batched(batched(inner, *callee, arguments, examples), wanted, examples);
  NotesRef notes = instruction.notes;
  if (!text->starts_with('!')) {
    const CallGradient gradient = call_gradient(*text);
    std::vector<BatchedType> results;
    for (std::size_t k = 0; k < root.leaves.size(); ++k)
      results.push_back({root.value.type().elements()[k], {root.leaves[k]}});
    const ComputationRef computation = computation_of(into, gradient.computation);
    const ComputationId id = batched_gradient(into, *computation, types, results, gradient.count, examples);
    notes = with_frontend_attribute(notes, kGradientAttribute, fmt::format("{}/{}", id, gradient.count));
  }
  const ComputationId id = into.program().add(std::move(inner), root.value);
  into.default_notes = notes;
  return {ops::call(into, values, id), root.leaves};
}

}  // namespace tessera::autodiff

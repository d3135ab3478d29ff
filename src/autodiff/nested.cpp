// SPDX-License-Identifier: Apache-2.0
// Gradients through call and conditional, and of ops that are differentiated in their form of other ops. Each called
// computation is differentiated into a new computation, which takes the forward operands and the arriving gradients.
#include <algorithm>

#include "reverse_pass.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/structural.h"

namespace tessera::autodiff {

namespace {

struct Leaf {
  int operand = 0;
  int leaf = 0;
};

std::vector<Value> present(const LeafGradients& gradients) {
  std::vector<Value> out;
  for (const Value& gradient : gradients)
    if (!gradient.is_null()) out.push_back(gradient);
  return out;
}

// Rebuilds the arriving gradients from `values`, which are in the same order.
LeafGradients spread(const LeafGradients& arrived, const std::vector<Value>& values) {
  LeafGradients out;
  std::size_t next = 0;
  for (const Value& gradient : arrived) out.push_back(gradient.is_null() ? Value{} : values[next++]);
  return out;
}

ComputationRef called_of(ReversePass& pass, const Instruction& instruction, int which) {
  return at(pass.builder().program().program().computations, at(instruction.called, which));
}

std::vector<Leaf> float_leaves(const Type& type, int operand) {
  std::vector<Leaf> out;
  const auto leaves = type.leaves();
  for (int leaf = 0; leaf < isize(leaves); ++leaf)
    if (has_float_leaf(at(leaves, leaf))) out.push_back({operand, leaf});
  return out;
}

}  // namespace

namespace {

// Element k of the result of a call: the instruction after the call that reads it, which may be a residual of an
// enclosing loop, or a new one.
Value element_of_call(ReversePass& pass, Id call, int k) {
  Builder& builder = pass.builder();
  const Id place = call + 1 + k;
  if (place < builder.computation().size()) {
    const Instruction& next = builder[place];
    if (next.op->role == Role::kGetTupleElement && next.operands.front() == call &&
        attributes_as<IndexAttributes>(next.attributes).index == k)
      return pass.value_for_backward(place);
  }
  return ops::get_tuple_element(pass.value_for_backward(call), k);
}

// Emits the gradient that the attribute of the call names. Returns false if only the call itself can be
// differentiated: a gradient arrives at a residual.
bool step_given_gradient(ReversePass& pass, Id id, const Instruction& instruction, const LeafGradients& d_results) {
  const std::string* text = instruction.frontend_attribute(kGradientAttribute);
  if (text == nullptr) return false;
  require(!text->starts_with('!'), "{}", text->substr(1));
  const auto [gradient, count] = call_gradient(*text);
  for (int k = count; k < isize(d_results); ++k)
    if (!at(d_results, k).is_null()) return false;
  Builder& outer = pass.builder();
  std::vector<Value> arguments;
  for (const Id operand : instruction.operands) arguments.push_back(pass.value_for_backward(operand));
  for (int k = 0; k < isize(d_results); ++k) arguments.push_back(element_of_call(pass, id, k));
  const auto types = instruction.type.leaves();
  for (int k = 0; k < count; ++k)
    if (has_float_leaf(at(types, k)))
      arguments.push_back(at(d_results, k).is_null() ? ops::full(outer, at(types, k), 0) : at(d_results, k));
  const Value d_operands = ops::call(outer, arguments, gradient);
  int next = 0;
  for (const Id operand : instruction.operands)
    if (has_float_leaf(outer[operand].type)) pass.arrive(operand, 0, ops::get_tuple_element(d_operands, next++));
  return true;
}

// Differentiates an instruction whose value is that of `callee` for its operands.
void step_callee(ReversePass& pass, const Instruction& instruction, const Computation& callee,
                 const LeafGradients& d_results) {
  Builder& outer = pass.builder();
  Builder inner = outer.program().computation(callee.name + ".gradient");
  std::vector<Value> arguments;
  std::vector<Value> parameters;
  for (const Id operand : instruction.operands) {
    arguments.push_back(pass.value_for_backward(operand));
    parameters.push_back(ops::parameter(inner, isize(parameters), outer[operand].type));
  }
  const Value root = inlined(inner, callee, parameters);
  std::vector<Value> arriving;
  for (const Value& gradient : present(d_results)) {
    arriving.push_back(ops::parameter(inner, isize(arguments), gradient.type()));
    arguments.push_back(gradient);
  }
  std::vector<Value> wrt;
  std::vector<Id> wrt_ids;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (!pass.depends(instruction.operands[i])) continue;
    wrt.push_back(parameters[i]);
    wrt_ids.push_back(instruction.operands[i]);
  }
  const auto flowing = differentiate(inner, root, spread(d_results, arriving), wrt);
  std::vector<Value> results;
  std::vector<Leaf> places;
  for (int i = 0; i < isize(flowing); ++i)
    for (int leaf = 0; leaf < isize(at(flowing, i)); ++leaf)
      if (const Value gradient = at(at(flowing, i), leaf); !gradient.is_null()) {
        results.push_back(gradient);
        places.push_back({i, leaf});
      }
  if (results.empty()) return;
  const Value all = ops::tuple(inner, results);
  const ComputationId gradient = outer.program().add(std::move(inner), all);
  const Value d_operands = ops::call(outer, arguments, gradient);
  for (int k = 0; k < isize(places); ++k)
    pass.arrive(at(wrt_ids, at(places, k).operand), at(places, k).leaf, ops::get_tuple_element(d_operands, k));
}

// The op as a computation of the ops that its hlo_form emits.
Computation form_of(ReversePass& pass, const Instruction& instruction) {
  Builder& outer = pass.builder();
  const OpDef& op = *instruction.op;
  ensure(op.hlo_form != nullptr, "{}: the row has no form", op.name);
  Builder inner = outer.program().computation(std::string(op.name));
  inner.default_notes = outer.default_notes;
  OpView view{op, {}, instruction.type, instruction.attributes, {}};
  std::vector<Value> parameters;
  for (const Id operand : instruction.operands) {
    view.operands.push_back(outer[operand].type);
    parameters.push_back(ops::parameter(inner, isize(parameters), view.operands.back()));
  }
  const Value root = op.hlo_form(view, parameters);
  return std::move(inner).finish(root);
}

}  // namespace

CallGradient call_gradient(const std::string& text) {
  return {std::stoi(text), std::stoi(text.substr(text.find('/') + 1))};
}

void step_call(ReversePass& pass, Id id, const Instruction& instruction, const LeafGradients& d_results) {
  if (step_given_gradient(pass, id, instruction, d_results)) return;
  step_callee(pass, instruction, *called_of(pass, instruction, 0), d_results);
}

void step_form(ReversePass& pass, const Instruction& instruction, const LeafGradients& d_results) {
  step_callee(pass, instruction, form_of(pass, instruction), d_results);
}

void step_conditional(ReversePass& pass, const Instruction& instruction, const LeafGradients& d_results) {
  Builder& outer = pass.builder();
  // Of the operands of all branches: every branch returns all of them, and zeros for those of other branches.
  std::vector<Leaf> places;
  for (int i = 1; i < isize(instruction.operands); ++i)
    if (const Id operand = at(instruction.operands, i); pass.depends(operand))
      for (const Leaf& leaf : float_leaves(outer[operand].type, i)) places.push_back(leaf);
  std::vector<ComputationId> branches;
  std::vector<Value> operands;
  for (int i = 1; i < isize(instruction.operands); ++i) {
    const ComputationRef branch = called_of(pass, instruction, i - 1);
    std::vector<Value> parts = present(d_results);
    parts.insert(parts.begin(), pass.value_for_backward(at(instruction.operands, i)));
    operands.push_back(ops::tuple(outer, parts));
    Builder inner = outer.program().computation(branch->name + ".gradient");
    const Value parameter = ops::parameter(inner, 0, operands.back().type());
    std::vector<Value> arriving;
    for (int k = 0; k < isize(parts); ++k) arriving.push_back(ops::get_tuple_element(parameter, k));
    const Value argument = arriving.front();
    arriving.erase(arriving.begin());
    const Value root = inlined(inner, *branch, {argument});
    const auto flowing = differentiate(inner, root, spread(d_results, arriving), {argument}).front();
    std::vector<Value> results;
    for (const Leaf& place : places) {
      const Value own = place.operand == i ? at(flowing, place.leaf) : Value{};
      const Type type = at(outer[at(instruction.operands, place.operand)].type.leaves(), place.leaf);
      results.push_back(own.is_null() ? ops::full(inner, type, 0) : own);
    }
    const Value all = ops::tuple(inner, results);
    branches.push_back(outer.program().add(std::move(inner), all));
  }
  const Value index = outer.value(instruction.operands[0]);
  const Value d_operands = ops::conditional(index, operands, branches);
  for (int k = 0; k < isize(places); ++k)
    pass.arrive(at(instruction.operands, at(places, k).operand), at(places, k).leaf,
                ops::get_tuple_element(d_operands, k));
}

}  // namespace tessera::autodiff

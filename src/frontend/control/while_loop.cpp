// SPDX-License-Identifier: Apache-2.0
// while_loop: the state of the loop is (iteration, state, values that the condition and the body use).
#include "control/traced_values.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/loops.h"
#include "tessera/ops/structural.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

using control::values_of;

// Traces a function of (iteration, state).
void trace_on_state(FunctionTrace& function, const std::vector<Value>& init,
                    const std::function<detail::Tensors(const detail::Tensors&)>& call) {
  function.set_iteration(function.argument(Type::scalar(DType::kS32), "iteration"));
  const std::vector<Value> state = control::add_arguments(function, init, "state");
  const detail::Tensors results = call(control::tensors_of(state));
  function.close(values_of(results));
}

// The arguments of a traced function in a computation whose parameter is the state: the values that it captured begin
// at element `first_captured`.
std::vector<Value> arguments_from(Value state, const FunctionTrace& function, int first_captured) {
  std::vector<Value> out;
  for (int k = 0; k < function.argument_count(); ++k) out.push_back(ops::get_tuple_element(state, k));
  for (int k = 0; k < isize(function.captured()); ++k) out.push_back(ops::get_tuple_element(state, first_captured + k));
  return out;
}

ComputationId add_condition(const FunctionTrace& function, const Type& type, int first_captured) {
  ProgramBuilder& program = trace().program();
  Builder builder = program.computation("while_loop.condition");
  const Value state = ops::parameter(builder, 0, type, "state");
  const Value root = inlined(builder, function.computation(), arguments_from(state, function, first_captured));
  const Value goes_on = ops::elements_of(root).front();
  return program.add(std::move(builder), goes_on);
}

ComputationId add_body(const FunctionTrace& function, const Type& type, int first_captured) {
  ProgramBuilder& program = trace().program();
  Builder builder = program.computation("while_loop.body");
  const Value state = ops::parameter(builder, 0, type, "state");
  const Value root = inlined(builder, function.computation(), arguments_from(state, function, first_captured));
  std::vector<Value> next{ops::add(ops::get_tuple_element(state, 0), control::s32(builder, 1))};
  for (const Value& value : ops::elements_of(root)) next.push_back(value);
  for (int k = isize(next); k < isize(type.elements()); ++k) next.push_back(ops::get_tuple_element(state, k));
  const Value all = ops::tuple(builder, next);
  return program.add(std::move(builder), all);
}

}  // namespace

namespace detail {

Tensors while_tensors(const LoopCondition& condition, const LoopBody& body, const Tensors& init,
                      const std::source_location& where) {
  Trace& current = trace();
  Builder& outer = current.builder();
  outer.default_notes = current.notes(where);
  const std::vector<Value> start = values_of(init);
  FunctionTrace first("while_loop.condition");
  trace_on_state(first, start, [&](const Tensors& state) { return Tensors{condition(state)}; });
  FunctionTrace second("while_loop.body");
  trace_on_state(second, start, body);
  const auto results = [](FunctionTrace& function) {
    return ops::elements_of(function.builder().value(function.root()));
  };
  in_context("", {}, where, [&] {
    const Type verdict = results(first).front().type();
    require(verdict == Type::scalar(DType::kPred), "while_loop: the condition must return pred[], got {}", verdict);
    control::check_types("while_loop", "the state", start, results(second));
  });
  outer.default_notes = current.notes(where);
  std::vector<Value> state{control::s32(outer, 0)};
  for (const auto* part : {&start, &first.captured(), &second.captured()})
    state.insert(state.end(), part->begin(), part->end());
  const Value initial = ops::tuple(outer, state);
  const Type type = initial.type();
  const int captured = 1 + isize(start);
  const Value end = ops::while_loop(initial, add_condition(first, type, captured),
                                    add_body(second, type, captured + isize(first.captured())));
  std::vector<Value> out;
  for (int k = 0; k < isize(start); ++k) out.push_back(ops::get_tuple_element(end, 1 + k));
  return control::tensors_of(out);
}

}  // namespace detail
}  // namespace tessera

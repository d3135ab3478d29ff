// SPDX-License-Identifier: Apache-2.0
// cond: each function becomes a computation that takes a tuple of the values that the function uses.
#include "control/traced_values.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/loops.h"
#include "tessera/ops/structural.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

using control::values_of;

void trace_branch(FunctionTrace& function, const detail::Branch& branch) {
  const detail::Tensors results = branch();
  function.close(values_of(results));
}

std::vector<Value> results_of(const FunctionTrace& function, Builder& builder) {
  const Computation computation = function.computation();
  std::vector<Value> out;
  for (const Id id : computation[computation.root].operands) out.push_back(builder.value(id));
  return out;
}

// The computation that takes the captured values as one tuple.
ComputationId add_branch(const FunctionTrace& function, Value operand) {
  ProgramBuilder& program = trace().program();
  const Computation computation = function.computation();
  Builder builder = program.computation(computation.name);
  const Value parameter = ops::parameter(builder, 0, operand.type(), "captured");
  std::vector<Value> arguments;
  for (int k = 0; k < isize(function.captured()); ++k) arguments.push_back(ops::get_tuple_element(parameter, k));
  const Value root = inlined(builder, computation, arguments);
  return program.add(std::move(builder), root);
}

}  // namespace

namespace detail {

Tensors cond_tensors(const Operand& predicate, const Branch& on_true, const Branch& on_false) {
  const auto& where = predicate.where();
  in_context("cond", {&predicate.tensor()}, where, [&] {
    require(!predicate.is_number(), "the predicate is a number, not a tensor: use an if statement");
    const Type& type = predicate.tensor().type();
    require(type == Type::scalar(DType::kPred), "the predicate must be pred[], got {}", type);
  });
  Trace& current = trace();
  Builder& outer = current.builder();
  outer.default_notes = current.notes(where);
  FunctionTrace first("cond.true");
  trace_branch(first, on_true);
  FunctionTrace second("cond.false");
  trace_branch(second, on_false);
  in_context("cond", {&predicate.tensor()}, where, [&] {
    control::check_types("cond", "the result of the first function", results_of(first, first.builder()),
                         results_of(second, second.builder()));
  });
  outer.default_notes = current.notes(where);
  const std::vector<Value> operands{ops::tuple(outer, first.captured()), ops::tuple(outer, second.captured())};
  const std::vector<ComputationId> branches{add_branch(first, operands[0]), add_branch(second, operands[1])};
  const Value result = ops::conditional(current.use(predicate.tensor()), operands, branches);
  return control::tensors_of(ops::elements_of(result));
}

}  // namespace detail
}  // namespace tessera

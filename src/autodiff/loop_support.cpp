// SPDX-License-Identifier: Apache-2.0
#include "loop_support.h"

#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::autodiff {

bool reads_tuple(const Computation& computation, const Instruction& instruction) {
  return instruction.op->role == Role::kGetTupleElement &&
         computation[instruction.operands[0]].op->role == Role::kTuple;
}

Id element_read(const Computation& computation, const Instruction& instruction) {
  return at(computation[instruction.operands[0]].operands,
            attributes_as<IndexAttributes>(instruction.attributes).index);
}

bool passes_on(const Computation& body, int e) {
  Id id = at(body[body.root].operands, e);
  while (reads_tuple(body, body[id])) id = element_read(body, body[id]);
  const Instruction& next = body[id];
  return next.op->role == Role::kGetTupleElement && body[next.operands[0]].op->role == Role::kParameter &&
         attributes_as<IndexAttributes>(next.attributes).index == e;
}

std::vector<Value> elements_of(Value tuple) {
  std::vector<Value> out;
  if (tuple.instruction().op->role == Role::kTuple) {
    for (const Id operand : tuple.instruction().operands) out.push_back(tuple.builder->value(operand));
    return out;
  }
  const int count = isize(tuple.type().elements());
  for (int k = 0; k < count; ++k) out.push_back(ops::get_tuple_element(tuple, k));
  return out;
}

std::vector<Value> counted_loop(Builder& outer, const std::string& name, const std::vector<Value>& init,
                                std::int64_t trips, const LoopBody& body) {
  std::vector<Value> start{ops::scalar(outer, DType::kS32, 0)};
  start.insert(start.end(), init.begin(), init.end());
  const Value state = ops::tuple(outer, start);
  const Type type = state.type();
  Builder condition = outer.program().computation(name + ".condition");
  const Value counter = ops::get_tuple_element(ops::parameter(condition, 0, type), 0);
  const Value goes_on =
      ops::compare(counter, ops::scalar(condition, DType::kS32, static_cast<double>(trips)), CompareDirection::kLt);
  const ComputationId condition_id = outer.program().add(std::move(condition), goes_on);
  Builder inner = outer.program().computation(name);
  const Value parameter = ops::parameter(inner, 0, type);
  std::vector<Value> elements;
  for (int i = 0; i < isize(start); ++i) elements.push_back(ops::get_tuple_element(parameter, i));
  const Value round = elements.front();
  elements.erase(elements.begin());
  std::vector<Value> next = body(inner, round, elements);
  next.insert(next.begin(), ops::add(round, ops::scalar(inner, DType::kS32, 1)));
  const Value root = ops::tuple(inner, next);
  const ComputationId body_id = outer.program().add(std::move(inner), root);
  const Value end = ops::while_loop(state, condition_id, body_id);
  std::vector<Value> out;
  for (int i = 0; i < isize(init); ++i) out.push_back(ops::get_tuple_element(end, i + 1));
  return out;
}

namespace {

// (index, 0, 0, …)
std::vector<Value> place_in_stack(Value index, int ndim) {
  std::vector<Value> out{index};
  for (int d = 1; d < ndim; ++d) out.push_back(ops::scalar(*index.builder, DType::kS32, 0));
  return out;
}

}  // namespace

Value row_at(Value stack, Value index) {
  Dims sizes = stack.type().dims();
  sizes.front() = 1;
  Dims row(sizes.begin() + 1, sizes.end());
  const auto place = place_in_stack(index, isize(sizes));
  return ops::reshape(ops::dynamic_slice(stack, place, std::move(sizes)), std::move(row));
}

Value with_row_at(Value stack, Value row, Value index) {
  Dims sizes = stack.type().dims();
  sizes.front() = 1;
  const auto place = place_in_stack(index, isize(sizes));
  return ops::dynamic_update_slice(stack, ops::reshape(row, std::move(sizes)), place);
}

}  // namespace tessera::autodiff

// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/loops.h"

#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::ops {

std::vector<Value> elements_of(Value tuple) {
  std::vector<Value> out;
  if (tuple.instruction().op->role == Role::kTuple) {
    for (const Id operand : tuple.instruction().operands) out.push_back(tuple.builder->value(operand));
    return out;
  }
  const int count = isize(tuple.type().elements());
  for (int k = 0; k < count; ++k) out.push_back(get_tuple_element(tuple, k));
  return out;
}

std::vector<Value> counted_while(Builder& outer, const std::string& name, std::int64_t rounds,
                                 const std::vector<Value>& init, const LoopBody& body) {
  std::vector<Value> start{scalar(outer, DType::kS32, 0)};
  start.insert(start.end(), init.begin(), init.end());
  const Value state = tuple(outer, start);
  const Type type = state.type();
  Builder condition = outer.program().computation(name + ".condition");
  const Value goes_on = compare(get_tuple_element(parameter(condition, 0, type, "state"), 0),
                                scalar(condition, DType::kS32, static_cast<double>(rounds)), CompareDirection::kLt);
  const ComputationId condition_id = outer.program().add(std::move(condition), goes_on);
  Builder inner = outer.program().computation(name + ".body");
  const Value given = parameter(inner, 0, type, "state");
  const Value counter = get_tuple_element(given, 0);
  std::vector<Value> elements;
  for (int i = 0; i < isize(init); ++i) elements.push_back(get_tuple_element(given, i + 1));
  std::vector<Value> next = body(counter, elements);
  next.insert(next.begin(), add(counter, scalar(inner, DType::kS32, 1)));
  const Value root = tuple(inner, next);
  const ComputationId body_id = outer.program().add(std::move(inner), root);
  const Value end = while_loop(state, condition_id, body_id);
  std::vector<Value> out;
  for (int i = 0; i < isize(init); ++i) out.push_back(get_tuple_element(end, i + 1));
  return out;
}

namespace {

// The start (index, 0, 0, …) of a row.
std::vector<Value> start_of_row(Value index, int ndim) {
  std::vector<Value> out{index};
  for (int d = 1; d < ndim; ++d) out.push_back(scalar(*index.builder, DType::kS32, 0));
  return out;
}

}  // namespace

Value row_at(Value stack, Value index) {
  Dims sizes = stack.type().dims();
  sizes.front() = 1;
  Dims row(sizes.begin() + 1, sizes.end());
  const auto start = start_of_row(index, isize(sizes));
  return reshape(dynamic_slice(stack, start, std::move(sizes)), std::move(row));
}

Value with_row_at(Value stack, Value row, Value index) {
  Dims sizes = stack.type().dims();
  sizes.front() = 1;
  const auto start = start_of_row(index, isize(sizes));
  return dynamic_update_slice(stack, reshape(row, std::move(sizes)), start);
}

}  // namespace tessera::ops

// SPDX-License-Identifier: Apache-2.0
#include "control/traced_values.h"

#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::control {

std::vector<Value> values_of(const std::vector<Tensor>& tensors) {
  std::vector<Value> out;
  out.reserve(tensors.size());
  for (const Tensor& tensor : tensors) out.push_back(trace().use(tensor));
  return out;
}

std::vector<Tensor> tensors_of(const std::vector<Value>& values) {
  std::vector<Tensor> out;
  out.reserve(values.size());
  for (const Value& value : values) out.push_back(trace().wrap(value));
  return out;
}

std::vector<Value> add_arguments(FunctionTrace& function, const std::vector<Value>& like, const std::string& name) {
  std::vector<Value> out;
  for (const Value& value : like) {
    const Type type = value.type();  // a copy: emitting reallocates
    out.push_back(function.argument(type, name));
  }
  return out;
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

void check_types(std::string_view function, std::string_view what, const std::vector<Value>& expected,
                 const std::vector<Value>& results) {
  require(expected.size() == results.size(), "{}: {} has {} tensors, but the function returns {}", function, what,
          expected.size(), results.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    require(expected[i].type() == results[i].type(), "{}: the function returns {} for tensor {} of {}, which is {}",
            function, results[i].type(), i, what, expected[i].type());
}

std::vector<Value> counted_while(Builder& outer, const std::string& name, std::int64_t limit,
                                 const std::vector<Value>& init, const CountedBody& body) {
  std::vector<Value> start{s32(outer, 0)};
  start.insert(start.end(), init.begin(), init.end());
  const Value state = ops::tuple(outer, start);
  const Type type = state.type();
  Builder condition = outer.program().computation(name + ".condition");
  const Value goes_on = ops::compare(ops::get_tuple_element(ops::parameter(condition, 0, type, "state"), 0),
                                     s32(condition, limit), CompareDirection::kLt);
  const ComputationId condition_id = outer.program().add(std::move(condition), goes_on);
  Builder inner = outer.program().computation(name + ".body");
  const Value parameter = ops::parameter(inner, 0, type, "state");
  const Value counter = ops::get_tuple_element(parameter, 0);
  std::vector<Value> elements;
  for (int i = 0; i < isize(init); ++i) elements.push_back(ops::get_tuple_element(parameter, i + 1));
  std::vector<Value> next = body(counter, elements);
  next.insert(next.begin(), ops::add(counter, s32(inner, 1)));
  const Value root = ops::tuple(inner, next);
  const ComputationId body_id = outer.program().add(std::move(inner), root);
  const Value end = ops::while_loop(state, condition_id, body_id);
  std::vector<Value> out;
  for (int i = 0; i < isize(init); ++i) out.push_back(ops::get_tuple_element(end, i + 1));
  return out;
}

Value s32(Builder& builder, std::int64_t value) {
  return ops::scalar(builder, DType::kS32, static_cast<double>(value));
}

std::vector<Value> row_position(Value index, int ndim) {
  std::vector<Value> out{index};
  for (int d = 1; d < ndim; ++d) out.push_back(s32(*index.builder, 0));
  return out;
}

Value row_of(Value stack, Value index) {
  Dims sizes = stack.type().dims();
  sizes.front() = 1;
  Dims row(sizes.begin() + 1, sizes.end());
  const auto position = row_position(index, isize(sizes));
  return ops::reshape(ops::dynamic_slice(stack, position, std::move(sizes)), std::move(row));
}

Value with_row(Value stack, Value row, Value index) {
  Dims dims = stack.type().dims();
  dims.front() = 1;
  const auto position = row_position(index, isize(dims));
  return ops::dynamic_update_slice(stack, ops::reshape(row, std::move(dims)), position);
}

Type stacked_type(const Type& row, std::int64_t length) {
  Dims dims = row.dims();
  dims.insert(dims.begin(), length);
  return Type::array(row.dtype(), std::move(dims));
}

}  // namespace tessera::control

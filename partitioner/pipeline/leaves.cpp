// SPDX-License-Identifier: Apache-2.0
#include "pipeline/leaves.h"

#include "tessera/ops/structural.h"

namespace tessera {
namespace {

void take_apart_into(Value value, const Shardings* shardings, std::size_t& next, LeafValues& out) {
  Builder& builder = *value.builder;
  if (!value.type().is_tuple()) {
    if (shardings != nullptr) builder.set_sharding(value, make_sharding((*shardings)[next]));
    ++next;
    out.push_back(value);
    return;
  }
  for (int i = 0; i < isize(value.type().elements()); ++i)
    take_apart_into(ops::get_tuple_element(value, i), shardings, next, out);
}

Value put_together_from(Builder& builder, const Type& type, const LeafValues& leaves, std::size_t& next) {
  if (!type.is_tuple()) return leaves[next++];
  std::vector<Value> elements;
  Shardings shardings;
  bool known = true;
  for (const auto& element : type.elements()) {
    elements.push_back(put_together_from(builder, element, leaves, next));
    const auto& sharding = elements.back().instruction().sharding;
    known = known && sharding;
    if (known) shardings.insert(shardings.end(), sharding->begin(), sharding->end());
  }
  Value tuple = ops::tuple(builder, elements);
  if (known) builder.set_sharding(tuple, make_shardings(std::move(shardings)));
  return tuple;
}

}  // namespace

LeafValues take_apart(Value value) {
  if (!value.type().is_tuple()) return {value};
  const ShardingRef shardings = value.instruction().sharding;
  LeafValues out;
  std::size_t next = 0;
  take_apart_into(value, shardings.get(), next, out);
  return out;
}

Value put_together(Builder& builder, const Type& type, const LeafValues& leaves) {
  std::size_t next = 0;
  return put_together_from(builder, type, leaves, next);
}

std::vector<Value> operands_of_leaves(Builder& builder, const Computation& old, const Instruction& instruction,
                                      const LeafValues& leaves) {
  std::vector<Value> out;
  auto next = leaves.begin();
  for (const Id operand : instruction.operands) {
    const auto count = old[operand].type.leaf_count();
    out.push_back(put_together(builder, old[operand].type, {next, next + count}));
    next += count;
  }
  return out;
}

LeafValues element_of(const Type& tuple, std::int64_t index, const LeafValues& leaves) {
  const int first = tuple.leaf_offset(index);
  const int count = at(tuple.elements(), index).leaf_count();
  return {leaves.begin() + first, leaves.begin() + first + count};
}

std::int64_t index_of(const Instruction& instruction) {
  if (instruction.op->role == Role::kParameter)
    return attributes_as<ParameterAttributes>(instruction.attributes).number;
  return attributes_as<IndexAttributes>(instruction.attributes).index;
}

Program header_of(const Program& program) {
  Program header = program;
  header.computations.clear();
  header.entry = -1;
  return header;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
#include "simplify/tuple_elements.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/structural.h"

namespace tessera {

void Elements::add(const Elements& other) {
  for (std::size_t i = 0; i < has_.size(); ++i) has_[i] |= other.has_[i];
}
bool Elements::none() const { return std::find(has_.begin(), has_.end(), 1) == has_.end(); }
bool Elements::all() const { return std::find(has_.begin(), has_.end(), 0) == has_.end(); }

std::int64_t Elements::place(std::int64_t element) const { return std::count(has_.begin(), has_.begin() + element, 1); }

Type Elements::of(const Type& tuple) const { return Type::tuple(of(tuple.elements())); }

ShardingRef Elements::of(const Type& tuple, const ShardingRef& shardings) const {
  if (!shardings) return nullptr;
  Shardings out;
  auto next = shardings->begin();
  for (std::size_t i = 0; i < has_.size(); ++i) {
    const auto end = next + tuple.elements()[i].leaf_count();
    if (has_[i] != 0) out.insert(out.end(), next, end);
    next = end;
  }
  return make_shardings(std::move(out));
}

bool is_parameter(const Instruction& instruction) { return instruction.op->role == Role::kParameter; }

Value with_sharding(Value value, ShardingRef sharding) {
  if (sharding) value.builder->set_sharding(value, std::move(sharding));
  return value;
}

std::int64_t element_index(const Instruction& instruction) {
  return attributes_as<IndexAttributes>(instruction.attributes).index;
}

std::unordered_map<Id, Elements> elements_read(const Computation& computation,
                                               const std::function<bool(const Instruction&)>& wanted) {
  std::unordered_map<Id, Elements> out;
  for (Id id = 0; id < computation.size(); ++id) {
    const Instruction& instruction = computation[id];
    for (const Id operand : instruction.operands) {
      const auto found = out.find(operand);
      if (found == out.end()) continue;
      if (instruction.op->role == Role::kGetTupleElement)
        found->second.add(element_index(instruction));
      else
        found->second = Elements(found->second.size(), true);
    }
    if (instruction.type.is_tuple() && wanted(instruction))
      out.emplace(id, Elements(instruction.type.elements().size(), id == computation.root));
  }
  return out;
}

ShardingRef element_sharding(const Type& tuple, const ShardingRef& shardings, std::int64_t element) {
  Elements one(tuple.elements().size(), false);
  one.add(element);
  return one.of(tuple, shardings);
}

}  // namespace tessera

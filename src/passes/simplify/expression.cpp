// SPDX-License-Identifier: Apache-2.0
#include "simplify/expression.h"

#include <algorithm>
#include <utility>

#include "plain.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

bool is_scalar_constant(const Instruction& instruction) {
  return instruction.op->role == Role::kConstant && instruction.type.is_array() && instruction.type.ndim() == 0;
}

}  // namespace

std::optional<Expression> expression_of(const Computation& computation, Id id) {
  const Instruction& instruction = computation[id];
  if (!instruction.op->rematerializable || !instruction.type.is_array() || !is_plain(instruction)) return std::nullopt;
  if (instruction.op->role == Role::kConstant && !is_scalar_constant(instruction)) return std::nullopt;
  Expression out;
  Instruction made = instruction;
  for (Id& operand : made.operands) {
    const Instruction& scalar = computation[operand];
    if (!is_scalar_constant(scalar) || !is_plain(scalar)) return std::nullopt;
    operand = isize(out);
    out.push_back(scalar);
  }
  out.push_back(std::move(made));
  return out;
}

bool same_expression(const Expression& a, const Expression& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Instruction& x, const Instruction& y) {
    return x.op == y.op && x.type == y.type && x.operands == y.operands && equal(x.attributes, y.attributes) &&
           same_shardings(x.sharding, y.sharding);
  });
}

Value made_in(Builder& builder, const Expression& expression) {
  std::vector<Value> made;
  for (Instruction instruction : expression) {
    for (Id& operand : instruction.operands) operand = at(made, operand).id;
    made.push_back(builder.append(std::move(instruction)));
  }
  return made.back();
}

}  // namespace tessera

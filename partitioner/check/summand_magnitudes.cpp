// SPDX-License-Identifier: Apache-2.0
#include "check/summand_magnitudes.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

double largest_leaf(const Literal& value) {
  double most = 0;
  for (const Literal& leaf : value.leaves())
    if (leaf.type().is_array() && is_float(real_dtype(leaf.type().dtype())))
      most = std::max(most, magnitude_of(leaf.as_reals()));
  return most;
}

bool passes_roundings(const Computation& entry, const Program& program, const Instruction& instruction, int operand) {
  const Role role = instruction.op->role;
  if (role == Role::kTuple || role == Role::kGetTupleElement) return true;
  if (instruction.op->linearity == nullptr) return false;
  return instruction.op->linearity(view_of(program, entry, instruction), operand) != Linearity::kNone;
}

}  // namespace

double magnitude_of(const Literal& array) {
  double most = 0;
  for (std::int64_t i = 0; i < array.type().element_count(); ++i) {
    const double value = std::fabs(element_as_double(array, i));
    if (std::isfinite(value)) most = std::max(most, value);
  }
  return most;
}

Magnitudes::Magnitudes(const Program& program)
    : program_(program), of_(program.entry_computation().instructions.size(), 0) {}

void Magnitudes::observe(const Computation& computation, Id id, const Literal& value) {
  const Computation& entry = program_.entry_computation();
  const bool is_entry = computation.name == entry.name && computation.size() == entry.size();
  if (is_entry) at(of_, id) = std::max(at(of_, id), largest_leaf(value));
}

double Magnitudes::of_result(int leaf) const {
  const Computation& entry = program_.entry_computation();
  const Instruction& root = entry[entry.root];
  const bool is_flat_tuple =
      root.op->role == Role::kTuple && isize(root.operands) == root.type.leaf_count() && !root.operands.empty();
  std::vector<Id> open{is_flat_tuple ? at(root.operands, leaf) : entry.root};
  std::vector<bool> seen(entry.instructions.size(), false);
  double most = 0;
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (at(seen, id)) continue;
    at(seen, id) = true;
    most = std::max(most, at(of_, id));
    const Instruction& instruction = entry[id];
    for (int i = 0; i < isize(instruction.operands); ++i)
      if (passes_roundings(entry, program_, instruction, i)) open.push_back(at(instruction.operands, i));
  }
  return most;
}

}  // namespace tessera

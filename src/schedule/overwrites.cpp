// SPDX-License-Identifier: Apache-2.0
#include "overwrites.h"

#include <algorithm>

#include "op_kinds.h"

namespace tessera::schedule {
namespace {

// The number of a parameter's leaf among the leaves of all parameters.
int parameter_leaf(const Flow& flow, const Alias& alias) {
  const Computation& computation = *flow.computation;
  require(alias.parameter >= 0 && alias.parameter < isize(computation.parameters),
          "alias of parameter {}, but there are {} parameters", alias.parameter, computation.parameters.size());
  int leaf = computation[at(computation.parameters, alias.parameter)].type.leaf_index(alias.parameter_index);
  for (std::int64_t p = 0; p < alias.parameter; ++p) leaf += flow.leaf_count(at(computation.parameters, p));
  return leaf;
}

// Whether the op updates its first operand in place, `slot` is the leaf that replaces `origin`, and no other operand
// reads `origin`.
bool op_overwrites(const Flow& flow, int slot, int origin) {
  const Computation& computation = *flow.computation;
  const Slot& result = at(flow.slots, slot);
  if (!computation[result.id].op->updates_operand_in_place) return false;
  int leaf = 0;  // counts the leaves of all operands
  int reads = 0;
  bool matches = false;
  for (const Id operand : computation[result.id].operands) {
    const auto [first, last] = flow.slot_range(operand);
    for (int s = first; s < last; ++s, ++leaf) {
      if (at(flow.slots, s).origin != origin) continue;
      ++reads;
      matches = matches || (leaf == result.leaf && !at(flow.slots, s).view);
    }
  }
  return matches && reads == 1;
}

}  // namespace

std::vector<int> aliased_parameters(const Program& program, const Flow& flow) {
  const Computation& computation = *flow.computation;
  std::vector<const Type*> parameters;
  for (const Id id : computation.parameters) {
    const auto [begin, end] = flow.slot_range(id);
    for (int s = begin; s < end; ++s) parameters.push_back(&at(flow.slots, s).type);
  }
  std::vector<int> out(static_cast<std::size_t>(flow.leaf_count(computation.root)), -1);
  for (const Alias& alias : program.aliases) {
    const int leaf = parameter_leaf(flow, alias);
    const int result = computation.root_type().leaf_index(alias.output);
    const Type& given = *at(parameters, leaf);
    const Type& made = flow.slot(computation.root, result).type;
    require(
        given.is_array() && made.is_array() && given.dtype() == made.dtype() && given.byte_size() == made.byte_size(),
        "alias of result {} ({}) and parameter {} ({}): the types differ", result, made, alias.parameter, given);
    require(std::find(out.begin(), out.end(), leaf) == out.end(), "parameter {} is aliased twice", alias.parameter);
    at(out, result) = leaf;
  }
  return out;
}

bool may_overwrite(const Flow& flow, const Step& step, int slot, int origin) {
  const Type& written = at(flow.slots, slot).type;
  if (written.byte_size() != at(flow.slots, origin).type.byte_size()) return false;
  if (!step.fused && step.instructions.size() == 1) return op_overwrites(flow, slot, origin);
  if (!step.fused) {  // a product that is added to an operand
    const auto& read = at(flow.reads, step.instructions.front());
    return at(flow.slots, slot).id == step.instructions.back() &&
           std::find(read.begin(), read.end(), origin) == read.end();
  }
  for (const Id id : step.instructions)
    for (const Id operand : (*flow.computation)[id].operands) {
      const Slot& read = flow.slot(operand);
      if (read.origin != origin) continue;
      if (read.view || dtype_size(read.type.dtype()) != dtype_size(written.dtype())) return false;
      // A reduction reads row by row; a scalar is read for every element.
      const bool reduces = at(flow.kinds, id) != OpKind::kElementwise;
      if (!reduces && read.type.element_count() != (*flow.computation)[id].type.element_count()) return false;
    }
  return true;
}

}  // namespace tessera::schedule

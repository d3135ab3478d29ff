// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/unmerge_dims.h"

#include <algorithm>

#include "merged_dims.h"
#include "plain.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// The parts of each dim of a value.
using SplitDims = std::vector<Dims>;

Dims flat(const SplitDims& split) {
  Dims out;
  for (const Dims& parts : split) out.insert(out.end(), parts.begin(), parts.end());
  return out;
}

bool is_split(const SplitDims& split) {
  return std::any_of(split.begin(), split.end(), [](const Dims& parts) { return parts.size() > 1; });
}

// Replaces each of the given dims by its parts.
Dims renumbered(const Dims& dims, const SplitDims& split) {
  Dims first;
  std::int64_t next = 0;
  for (const Dims& parts : split) {
    first.push_back(next);
    next += isize(parts);
  }
  Dims out;
  for (const auto dim : dims)
    for (std::int64_t part = 0; part < isize(at(split, dim)); ++part) out.push_back(at(first, dim) + part);
  return out;
}

SplitDims split_value(const MergedDims& merged, const Computation& c, Id id) {
  SplitDims out;
  if (c[id].type.is_array())
    for (int d = 0; d < c[id].type.ndim(); ++d) out.push_back(merged.parts_of_value(id, d));
  return out;
}

SplitDims split_operand(const MergedDims& merged, const Computation& c, Id id, int k) {
  SplitDims out;
  const Type& type = c[at(c[id].operands, k)].type;
  if (type.is_array())
    for (int d = 0; d < type.ndim(); ++d) out.push_back(merged.parts_of_operand(id, k, d));
  return out;
}

Attributes split_attributes(const Instruction& i, const SplitDims& result, const std::vector<SplitDims>& operands) {
  if (i.op == &rows::kDot) {
    const auto& a = attributes_as<DotAttributes>(i.attributes);
    return make_attributes(
        DotAttributes{renumbered(a.lhs_batch_dims, operands[0]), renumbered(a.lhs_contracting_dims, operands[0]),
                      renumbered(a.rhs_batch_dims, operands[1]), renumbered(a.rhs_contracting_dims, operands[1])});
  }
  if (i.op == &rows::kIota) {
    const Dims dims = renumbered({attributes_as<IotaAttributes>(i.attributes).iota_dimension}, result);
    return make_attributes(IotaAttributes{dims.front()});
  }
  const auto* dims = attributes_if<DimensionsAttributes>(i.attributes);
  if (dims == nullptr) return i.attributes;
  const bool numbers_result = i.op->movement == Movement::kBroadcast;
  return make_attributes(DimensionsAttributes{renumbered(dims->dimensions, numbers_result ? result : operands[0])});
}

// Operand `k` with these dims. An unmerged one is read from before the reshape that merges it.
Value read(ComputationRewriter& r, Id id, int k, const SplitDims& split) {
  const Id operand = at(r.from()[id].operands, k);
  const Value known = r.mapped(operand);
  const Dims dims = flat(split);
  if (!known.type().is_array() || known.type().dims() == dims) return known;
  const Instruction& reshape = r.from()[operand];
  const Value before = r.mapped(reshape.operands[0]);
  if (before.type().dims() == dims) return before;
  Instruction out = r.translated(operand);
  out.type = Type::array(reshape.type.dtype(), dims);
  return r.builder().append(std::move(out));
}

Value unmerged(ComputationRewriter& r, const MergedDims& merged, Id id) {
  const Instruction& i = r.from()[id];
  const SplitDims result = split_value(merged, r.from(), id);
  std::vector<SplitDims> operands;
  Instruction out = r.translated(id);
  for (int k = 0; k < isize(i.operands); ++k) {
    operands.push_back(split_operand(merged, r.from(), id, k));
    at(out.operands, k) = read(r, id, k, operands.back()).id;
  }
  if (!is_split(result) && std::none_of(operands.begin(), operands.end(), is_split)) return r.keep(id);
  if (is_split(result)) out.type = Type::array(i.type.dtype(), flat(result));
  out.attributes = split_attributes(i, result, operands);
  if (is_free_reshape(i)) {
    const Value operand = r.builder().value(out.operands[0]);
    if (operand.type().dims() == out.type.dims()) return operand;
  }
  return r.builder().append(std::move(out));
}

}  // namespace

Program unmerge_dims(const Program& program) {
  const auto touches = [](const Computation& computation) { return MergedDims(computation).any(); };
  const auto rule = [](ComputationRewriter& r) {
    const MergedDims merged(r.from());
    for (Id id = 0; id < r.from().size(); ++id)
      if (r.from()[id].op->role != Role::kParameter) r.replace(id, unmerged(r, merged, id));
  };
  const bool any = std::any_of(program.computations.begin(), program.computations.end(),
                               [&](const ComputationRef& computation) { return touches(*computation); });
  return any ? rewrite_computations(program, rule, touches) : program;
}

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// Splits a reduction over dims on both sides of a kept dim (as of channels in batch norm), or over very many elements.
// It reduces the inner dims first:
//
//   %r = f32[C] reduce(%x, %init), dimensions={0,2,3}    ->  %rows = f32[N,C] reduce(%x, %identity), dimensions={2,3}
//                                                           %r = f32[C] reduce(%rows, %init), dimensions={0}
//
// The first reduction is over rows and thus joins the group of its operand, so x need not be written and read again.
#include <algorithm>
#include <map>

#include "tessera/lowering/lowering.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

// Limits on the elements of a row: shorter rows leave too much work for the second reduction, longer ones do not stay
// in the cache.
constexpr std::int64_t kFewest = 64;
constexpr std::int64_t kMost = 1 << 16;

// The last reduced dims, after all kept ones. Empty if these are all reduced dims or have too few elements.
Dims inner_dims(const Instruction& reduce, const Type& operand) {
  const Dims& reduced = attributes_as<DimensionsAttributes>(reduce.attributes).dimensions;
  const auto is_reduced = [&](std::int64_t d) { return std::find(reduced.begin(), reduced.end(), d) != reduced.end(); };
  Dims inner;
  std::int64_t elements = 1;
  for (std::int64_t d = operand.ndim() - 1; d >= 0 && is_reduced(d); --d) {
    const std::int64_t size = operand.dim(static_cast<int>(d));
    if (elements * size > kMost) break;
    inner.insert(inner.begin(), d);
    elements *= size;
  }
  if (elements < kFewest) return {};
  const bool has_outer = std::any_of(reduced.begin(), reduced.end(), [&](std::int64_t d) {
    return d < inner.front() && operand.dim(static_cast<int>(d)) > 1;
  });
  return has_outer ? inner : Dims{};
}

// Whether the reduction may be split: it is of f32 or f64, whose partial sums may be rounded, and a group computes its
// operand.
bool may_split(const Computation& from, const Instruction& reduce) {
  if (reduce.op != &rows::kReduce || !reduce.type.is_array() || reduce.operands.size() != 2) return false;
  if (reduce.sharding || !reduce.control_predecessors.empty()) return false;
  const Instruction& operand = from[reduce.operands[0]];
  const DType dtype = reduce.type.dtype();
  return (dtype == DType::kF32 || dtype == DType::kF64) && operand.op->elementwise && operand.type.dtype() == dtype;
}

class RowsFirst {
 public:
  explicit RowsFirst(ComputationRewriter& rewriter) : r_(rewriter), from_(rewriter.from()) {}

  void run() {
    for (Id id = 0; id < from_.size(); ++id) {
      if (from_[id].op->role == Role::kParameter) continue;
      if (may_split(from_, from_[id]) && reduce_rows(id)) continue;
      for (const Id operand : from_[id].operands) complete(operand);
      for (const Id before : from_[id].control_predecessors) complete(before);
      r_.keep(id);
    }
    complete(from_.root);
  }

 private:
  bool reduce_rows(Id id) {
    const Instruction& reduce = from_[id];
    const ComputationId callee = r_.callee(reduce.called.front());
    const auto reduction = reduction_of(*at(r_.builder().program().program().computations, callee));
    const Dims inner = inner_dims(reduce, from_[reduce.operands[0]].type);
    if (!reduction || inner.empty()) return false;
    for (const Id operand : reduce.operands) complete(operand);
    const Value identity = ops::constant(r_.builder(), reduction_identity(*reduction, reduce.type.dtype()));
    const Value rows = ops::reduce({r_.mapped(reduce.operands[0])}, {identity}, inner, callee);
    r_.builder().set_notes(rows, reduce.notes);
    rows_[id] = rows;
    return true;
  }
  // Emits the second reduction just before the first reader, because members of a group may have no readers before the
  // last member.
  void complete(Id id) {
    const auto found = rows_.find(id);
    if (found == rows_.end()) return;
    const Instruction& reduce = from_[id];
    Dims outer;
    for (const std::int64_t d : attributes_as<DimensionsAttributes>(reduce.attributes).dimensions)
      if (d < found->second.type().ndim()) outer.push_back(d);
    const Value reduced =
        ops::reduce({found->second}, {r_.mapped(reduce.operands[1])}, outer, r_.callee(reduce.called.front()));
    r_.builder().set_notes(reduced, reduce.notes);
    r_.replace(id, reduced);
    rows_.erase(found);
  }

  ComputationRewriter& r_;
  const Computation& from_;
  std::map<Id, Value> rows_;  // the reductions whose rows are reduced so far
};

}  // namespace

Program reduce_rows_first(const Program& program) {
  const Computation* entry = &program.entry_computation();
  return rewrite_computations(
      program, [](ComputationRewriter& rewriter) { RowsFirst(rewriter).run(); },
      [&](const Computation& computation) { return &computation == entry; });
}

}  // namespace tessera

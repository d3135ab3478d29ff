// SPDX-License-Identifier: Apache-2.0
// A value that is gathered from a group only to be reduced over the members is reduced by an all-reduce instead, with
// any associative computation:
//
//   %p = f32[8,1] reduce(%x, %low), dimensions={2}, to_apply=%f         %p unchanged
//   %g = f32[8,4] all-gather(%p), dimensions={1}                   ->   %g = f32[8,1] all-reduce(%p), to_apply=%f
//   %r = f32[8] reduce(%g, %low), dimensions={1}, to_apply=%f           %r = f32[8] reshape(%g)
//
// This needs 2(g-1)/g times the bytes of %p instead of g-1 times. If %p has another init value, or one that must not be
// applied twice, %r reduces %g, which has one element along the dim. Named reductions become partial values instead;
// this pass handles the others (split_reductions.cpp).
#include <algorithm>

#include "collective_passes/collective_match.h"
#include "localize/localize.h"
#include "reshard_insertion/split_reductions.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

const Dims& reduced_dims(const Instruction& reduce) {
  return attributes_as<DimensionsAttributes>(reduce.attributes).dimensions;
}

bool is_reduce(const Instruction& instruction) {
  return instruction.op == &rows::kReduce && instruction.operands.size() == 2;
}

class GatheredReductions {
 public:
  explicit GatheredReductions(const Program& program) : program_(program) {}

  bool touches(const Computation& computation) {
    look_at(computation);
    for (Id id = 0; id < computation.size(); ++id)
      if (!gathers_of(id).empty()) return true;
    return false;
  }

  Value rewritten(ComputationRewriter& r, Id id) {
    if (&r.from() != computation_) look_at(r.from());
    const std::vector<Id> gathers = gathers_of(id);
    if (gathers.empty()) return {};
    const Instruction& reduce = r.from()[id];
    const Id part = r.from()[gathers.back()].operands.front();
    Value value = r.mapped(part);
    for (auto gather = gathers.rbegin(); gather != gathers.rend(); ++gather)
      value = all_reduced(r, *gather, value, r.callee(reduce.called.front()));
    if (!has_same_reduction(part, id)) {
      Instruction last = r.translated(id);
      last.operands.front() = value.id;
      return r.builder().append(std::move(last));
    }
    const Value out = ops::reshape(value, reduce.type.dims());
    r.builder().set_name(out, reduce.name);
    r.builder().set_notes(out, for_another_op(reduce.notes));
    r.builder().set_sharding(out, reduce.sharding);
    return out;
  }

 private:
  void look_at(const Computation& computation) {
    computation_ = &computation;
    uses_ = computation.use_counts();
  }

  // The gathers, last first, that gather one element of each member along a dim that `id` reduces.
  [[nodiscard]] std::vector<Id> gathers_of(Id id) const {
    const Instruction& reduce = (*computation_)[id];
    if (!is_reduce(reduce) || !reduce.control_predecessors.empty()) return {};
    const Computation& combiner = program_[reduce.called.front()];
    if (reduction_of(combiner) || !may_reassociate(combiner)) return {};
    std::vector<Id> out;
    for (Id next = reduce.operands.front(); is_reduced_gather(next, reduced_dims(reduce));
         next = (*computation_)[next].operands.front())
      out.push_back(next);
    return out;
  }

  [[nodiscard]] bool is_reduced_gather(Id id, const Dims& reduced) const {
    const Instruction& gather = (*computation_)[id];
    if (!is_single(gather, CollectiveKind::kAllGather) || at(uses_, id) != 1) return false;
    if (is_pinned(gather) || !gather.control_predecessors.empty()) return false;
    const auto dim = attributes_as<CollectiveAttributes>(gather.attributes).dimensions.front();
    return std::find(reduced.begin(), reduced.end(), dim) != reduced.end() &&
           (*computation_)[gather.operands.front()].type.dim(static_cast<int>(dim)) == 1 &&
           size_of_groups(program_, gather) == gather.type.dim(static_cast<int>(dim));
  }

  // Whether `part` uses the same computation and init value, and no dim remains to be reduced after the all-reduce.
  [[nodiscard]] bool has_same_reduction(Id part, Id id) const {
    const Instruction& first = (*computation_)[part];
    const Instruction& last = (*computation_)[id];
    return is_reduce(first) && first.called == last.called && first.operands.back() == last.operands.back() &&
           first.type.element_count() == last.type.element_count() && absorbs_its_init(program_, *computation_, last);
  }

  static Value all_reduced(ComputationRewriter& r, Id gather, Value part, ComputationId computation) {
    Instruction out = r.translated(gather);
    CollectiveAttributes attributes = attributes_as<CollectiveAttributes>(out.attributes);
    attributes.dimensions.clear();
    out.op = &rows::kAllReduce;
    out.name = out.op->name;
    out.type = part.type();
    out.operands = {part.id};
    out.called = {computation};
    out.attributes = make_attributes(std::move(attributes));
    out.sharding = nullptr;
    out.notes = with_frontend_attribute(out.notes, kGlobalDimsAttribute, std::nullopt);
    return r.builder().append(std::move(out));
  }

  const Program& program_;
  const Computation* computation_ = nullptr;
  std::vector<int> uses_;
};

}  // namespace

Program reduce_gathered(const Program& program) {
  GatheredReductions reductions(program);
  const auto touches = [&](const Computation& c) { return reductions.touches(c); };
  if (std::none_of(program.computations.begin(), program.computations.end(),
                   [&](const ComputationRef& c) { return touches(*c); }))
    return program;
  return remove_dead_code(rewrite(
      program, [&](ComputationRewriter& r, Id id) { return reductions.rewritten(r, id); }, touches));
}

}  // namespace tessera

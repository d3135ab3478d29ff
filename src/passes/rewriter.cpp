// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/rewriter.h"

#include <algorithm>

namespace tessera {
namespace {

// Open dims on the manual axes of `region`, one sharding for each array of `type`.
ShardingRef open_in_region(const Sharding& region, const Type& type) {
  Shardings out;
  for (const Type& leaf : type.leaves()) {
    Sharding open = Sharding::replicated(region.mesh, leaf.is_array() ? leaf.ndim() : 0);
    for (DimSharding& dim : open.dims) dim.open = true;
    open.manual = region.manual;
    out.push_back(std::move(open));
  }
  return make_shardings(std::move(out));
}

// Values from `first` on replace `old`; if it is in a manual region, so are they.
void keep_in_region(Builder& builder, const Instruction& old, Id first) {
  if (!old.sharding || old.sharding->empty() || old.sharding->front().manual.empty()) return;
  for (Id id = first; id < builder.computation().size(); ++id)
    if (!builder[id].sharding)
      builder.set_sharding(builder.value(id), open_in_region(old.sharding->front(), builder[id].type));
}

}  // namespace

ComputationRewriter::ComputationRewriter(ProgramBuilder& program, const Computation& from,
                                         const std::vector<ComputationId>& callees)
    : program_(program),
      from_(from),
      callees_(callees),
      builder_(program, from.name),
      new_ids_(from.instructions.size(), -1) {
  for (const Id parameter : from.parameters) at(new_ids_, parameter) = builder_.append(from[parameter]).id;
}

Value ComputationRewriter::mapped(Id old) {
  ensure(at(new_ids_, old) >= 0, "%{} is used before it was kept or replaced", from_[old].name);
  return builder_.value(at(new_ids_, old));
}

std::vector<Value> ComputationRewriter::mapped(const std::vector<Id>& old) {
  std::vector<Value> out;
  for (const Id id : old) out.push_back(mapped(id));
  return out;
}

Instruction ComputationRewriter::translated(Id old) {
  Instruction out = from_[old];
  for (Id& operand : out.operands) operand = mapped(operand).id;
  for (Id& before : out.control_predecessors) before = mapped(before).id;
  for (ComputationId& id : out.called) id = callee(id);
  return out;
}

Value ComputationRewriter::keep(Id old) {
  if (at(new_ids_, old) < 0) replace(old, builder_.append(translated(old)));
  return mapped(old);
}

void ComputationRewriter::replace(Id old, Value with) {
  ensure(with.builder == &builder_, "%{} is replaced by a value of another computation", from_[old].name);
  at(new_ids_, old) = with.id;
}

ComputationId ComputationRewriter::finish() {
  const Value root = mapped(from_.root);
  return program_.add(std::move(builder_), root);
}

Program rewrite_computations(const Program& program, const ComputationRule& rule,
                             const std::function<bool(const Computation&)>& touches) {
  Program header = program;
  header.computations.clear();
  ProgramBuilder out(header);
  std::vector<ComputationId> callees;
  for (const ComputationRef& computation : program.computations) {
    const bool same_callees =
        std::all_of(computation->instructions.begin(), computation->instructions.end(), [&](const auto& i) {
          return std::all_of(i.called.begin(), i.called.end(), [&](ComputationId id) { return at(callees, id) == id; });
        });
    if (same_callees && touches && !touches(*computation)) {
      callees.push_back(out.add(computation));
      continue;
    }
    ComputationRewriter rewriter(out, *computation, callees);
    rule(rewriter);
    callees.push_back(rewriter.finish());
  }
  return out.finish(at(callees, program.entry));
}

Program rewrite(const Program& program, const RewriteRule& rule,
                const std::function<bool(const Computation&)>& touches) {
  const auto each = [&](ComputationRewriter& rewriter) {
    for (Id id = 0; id < rewriter.from().size(); ++id) {
      if (rewriter.from()[id].op->role == Role::kParameter) continue;
      const Id first = rewriter.builder().computation().size();
      const Value value = rule(rewriter, id);
      keep_in_region(rewriter.builder(), rewriter.from()[id], first);
      if (value.is_null())
        rewriter.keep(id);
      else
        rewriter.replace(id, value);
    }
  };
  return rewrite_computations(program, each, touches);
}

}  // namespace tessera

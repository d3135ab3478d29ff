// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/insert_reshards.h"

#include <algorithm>
#include <optional>

#include "normalize/duplicate_cheap_values.h"
#include "normalize/manual.h"
#include "pipeline/control_order.h"
#include "pipeline/leaves.h"
#include "pipeline/origins.h"
#include "propagation/propagate.h"
#include "propagation/root_targets.h"
#include "reshard_insertion/consumer_shardings.h"
#include "reshard_insertion/resharder.h"
#include "reshard_insertion/split_reductions.h"
#include "reshard_insertion/split_scans.h"
#include "reshard_insertion/split_sorts.h"
#include "reshard_insertion/split_top_k.h"
#include "strategy/op_decisions.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

// State that all computations of a program share.
struct Common {
  const Program& program;
  const MachineModel& machine;
  const RootTargets& targets;
  OpSignatures& signatures;
  OpDecisions& decisions;
  SharedShardings& shardings;
  bool known_copies = true;
  DecisionMemo* memo = nullptr;  // to compare the decisions with those of other choices
};

class Inserter {
 public:
  /// `later`: the copies that a first run found; null in the first run.
  Inserter(Common& common, ComputationId id, const std::vector<ComputationId>& new_ids, ProgramBuilder& out,
           const CopiesOfValues* later)
      : common_(common),
        later_(later),
        program_(common.program),
        old_(program_[id]),
        new_ids_(new_ids),
        builder_(out.computation(old_.name)),
        is_entry_(id == common.program.entry),
        root_(at(common.targets, id) ? &*at(common.targets, id) : nullptr),
        users_(old_.users()),
        consumer_shardings_(program_, id, users_, root_, common.signatures),
        origins_(old_, users_),
        mesh_(program_.meshes.empty() ? Mesh() : program_.meshes.front()),
        resharder_(builder_, origins_, old_, common.shardings, common.machine) {}

  /// `found`: receives the copies of all values, if it is not null.
  Computation run(CopiesOfValues* found = nullptr) {
    leaves_.resize(old_.instructions.size());
    for (Id id = 0; id < old_.size(); ++id) {
      const Id first = builder_.computation().size();
      op_.reset();
      at(leaves_, id) = rewrite(id);
      origins_.set(at(leaves_, id), id);
      order_.set(id, first, builder_, op_ ? LeafValues{*op_} : at(leaves_, id));
    }
    LeafValues result = at(leaves_, old_.root);
    set_region(old_[old_.root]);
    for (int i = 0; root_ != nullptr && i < isize(result); ++i) {
      const Value before = at(result, i);
      const bool given = origins_.is_given({old_.root, i});
      at(result, i) = resharder_.to(
          before, at(*root_, i).closed(), [&] { return shown_result(old_, i); },
          given ? ReshardCause::kGivenResult : ReshardCause::kResult);
      if (!is_derived(at(*old_[old_.root].sharding, i))) resharder_.asked(before, at(result, i));
    }
    // Only entry results may stay partial, if the program annotates them so.
    if (!is_entry_)
      for (auto& leaf : result)
        leaf = resharder_.without_partial(leaf, [&] { return fmt::format("the result of {}", old_.name); });
    compare_with_later_copies();
    if (found != nullptr) *found = copies();
    Value value = put_together(builder_, old_.root_type(), result);
    Computation made = std::move(builder_).finish(value);
    order_.keep(made);
    return made;
  }

 private:
  LeafValues rewrite(Id id) {
    const auto& instruction = old_[id];
    set_region(instruction);
    if (manual_border(instruction) != ManualBorder::kNone) return border(id);
    switch (instruction.op->role) {
      case Role::kParameter: return read_once(id, parameter(instruction));
      case Role::kTuple: return tuple(instruction);
      case Role::kGetTupleElement:
        return read_once(id, element_of(old_[instruction.operands[0]].type, index_of(instruction),
                                        at(leaves_, instruction.operands[0])));
      case Role::kOptBarrier: return barrier(instruction);
      case Role::kCopy: return mark(id);
      case Role::kShardingMark: return is_sharding_mark(instruction) ? mark(id) : plain(id);
      case Role::kCall:
      case Role::kWhile:
      case Role::kConditional: return control_flow(id);
      default: return plain(id);
    }
  }

  void set_region(const Instruction& instruction) {
    const auto* axes = instruction.frontend_attribute(kManualAxesAttribute);
    resharder_.set_region(axes != nullptr ? std::optional(*axes) : std::nullopt);
  }

  LeafValues border(Id id) {
    const auto& instruction = old_[id];
    const bool enters = manual_border(instruction) == ManualBorder::kEnter;
    Value value = at(leaves_, instruction.operands[0]).front();
    const Sharding inside = enters ? instruction.sharding->front().closed() : sharding_of(value).without_partial();
    const Type& type = value.type();
    const auto [local, outside] = border_shardings(*border_placement(program_, instruction), inside,
                                                   enters ? type : instruction.type, enters ? instruction.type : type);
    const Who by = [&] { return fmt::format("the operand of {} %{}", instruction.op->name, shown_name(instruction)); };
    set_region(old_[instruction.operands[0]]);
    value = resharder_.to(value, enters ? outside : local, by);
    set_region(instruction);
    const Value made = append(instruction, {value}, make_sharding(enters ? local : outside));
    return settle(id, {made});
  }

  Value append(const Instruction& like, const std::vector<Value>& operands, ShardingRef sharding) {
    Instruction copy = like;
    copy.operands.clear();
    for (const Value& operand : operands) copy.operands.push_back(operand.id);
    for (auto& called : copy.called) called = at(new_ids_, called);
    copy.control_predecessors.clear();
    copy.sharding = std::move(sharding);
    op_ = builder_.append(std::move(copy));
    return *op_;
  }

  // Only entry parameters may be partial, if the program annotates them so.
  LeafValues parameter(const Instruction& instruction) {
    Shardings leaves = closed(*instruction.sharding);
    for (int i = 0; is_entry_ && i < isize(leaves); ++i) at(leaves, i) = at(*instruction.sharding, i).closed();
    return take_apart(append(instruction, {}, make_shardings(std::move(leaves))));
  }

  // Partial values that several ops read are reduced once for all readers, unless no reader needs the reduction.
  LeafValues read_once(Id id, LeafValues leaves) {
    origins_.set(leaves, id);
    if (leaves.size() != 1 || at(users_, id).size() <= 1 || consumer_shardings_.may_stay_partial(id)) return leaves;
    return {resharder_.without_partial(
        leaves.front(), [&] { return fmt::format("%{}, which several ops read,", shown_name(old_[id])); })};
  }

  // The leaves, resharded if the tuple has its own annotation.
  LeafValues tuple(const Instruction& instruction) { return leaves_of_operands(instruction); }

  LeafValues barrier(const Instruction& instruction) {
    LeafValues operands = tuple(instruction);
    LeafValues results = ops::opt_barrier(operands);
    for (int i = 0; i < isize(results); ++i) {
      builder_.set_sharding(at(results, i), at(operands, i).instruction().sharding);
      builder_.set_notes(at(results, i), instruction.notes);
    }
    return results;
  }

  LeafValues mark(Id id) {
    const auto& instruction = old_[id];
    LeafValues out;
    const auto& operands = at(leaves_, instruction.operands[0]);
    for (int i = 0; i < isize(operands); ++i) {
      const Value leaf = at(operands, i);
      const Sharding target = at(*instruction.sharding, i).closed();
      const bool wanted = is_sharding_mark(instruction) || !at(*instruction.sharding, i).dims.empty();
      if (!wanted || is_derived(at(*instruction.sharding, i)) || !leaf.type().is_array()) {
        out.push_back(operands.size() == 1 ? read_once(id, {leaf}).front() : leaf);
        continue;
      }
      out.push_back(resharder_.to(
          leaf, target, [&] { return shown_value(instruction); }, ReshardCause::kMark, id));
      resharder_.asked(leaf, out.back());
    }
    return out;
  }

  // Operands and results of a called computation have the shardings of its parameters and of the op's annotation.
  LeafValues control_flow(Id id) {
    const auto& instruction = old_[id];
    const bool is_while = instruction.op->role == Role::kWhile;
    const bool is_call = instruction.op->role == Role::kCall;
    std::vector<Value> operands;
    for (int i = 0; i < isize(instruction.operands); ++i) {
      LeafValues leaves = at(leaves_, at(instruction.operands, i));
      Shardings wanted;
      if (!is_while && !is_call && i == 0) {
        wanted.push_back(Sharding::replicated(mesh_, 0));  // the branch index
      } else {
        const auto& callee = program_[at(instruction.called, is_while || is_call ? 0 : i - 1)];
        const auto& parameter = callee[at(callee.parameters, is_call ? i : 0)];
        wanted = closed(*parameter.sharding);
      }
      for (int leaf = 0; leaf < isize(leaves); ++leaf)
        at(leaves, leaf) =
            resharder_.to(at(leaves, leaf), at(wanted, leaf), [&] { return operand_of(i, instruction); });
      operands.push_back(put_together(builder_, old_[at(instruction.operands, i)].type, leaves));
    }
    // The shardings that the called computation returns, which another caller may have determined.
    const Shardings results =
        is_while ? closed(*instruction.sharding) : *at(common_.targets, instruction.called.back());
    LeafValues leaves = take_apart(append(instruction, operands, make_shardings(results)));
    origins_.set(leaves, id);
    const Shardings required = closed(*instruction.sharding);
    for (int leaf = 0; leaf < isize(leaves); ++leaf)
      at(leaves, leaf) = resharder_.to(at(leaves, leaf), at(required, leaf), [&] {
        return fmt::format("result {} of {} %{}", leaf, instruction.op->name, shown_name(instruction));
      });
    return leaves;
  }

  static std::string operand_of(int operand, const Instruction& instruction) {
    return fmt::format("operand {} of {} %{}", operand, instruction.op->name, shown_name(instruction));
  }

  [[nodiscard]] LeafValues leaves_of_operands(const Instruction& instruction) const {
    LeafValues out;
    for (const Id operand : instruction.operands)
      out.insert(out.end(), at(leaves_, operand).begin(), at(leaves_, operand).end());
    return out;
  }

  LeafValues plain(Id id) {
    const auto& instruction = old_[id];
    std::vector<Value> operands = leaves_of_operands(instruction);
    OpRequest request{common_.signatures.of(program_, old_, instruction),
                      {},
                      {},
                      consumer_shardings_.required(id),
                      instruction.sharding,
                      false};
    if (consumer_shardings_.is_unannotated_root(id)) request.found = request.required;
    for (const Value& operand : operands) {
      request.operands.push_back(operand.instruction().sharding);
      request.rematerialized.push_back(resharder_.is_made_here(operand));
      request.result_may_stay_partial = request.result_may_stay_partial || sharding_of(operand).is_partial();
    }
    if (instruction.frontend_attribute(kManualAxesAttribute) != nullptr)
      request.manual = manual_axes(program_, instruction);
    if (common_.known_copies) request.copies = resharder_.copies_of(operands);
    if (later_ != nullptr) add_copies(request, copies_of_operands(*later_, instruction));
    request.result_may_stay_partial = request.result_may_stay_partial && consumer_shardings_.may_stay_partial(id) &&
                                      !consumer_shardings_.is_reduced_by_constraint(id, operands);
    const OpDecision& decision = common_.decisions.decide(mesh_, request, common_.shardings);
    if (common_.decisions.explains)
      resharder_.set_next([this, request, decision] { return common_.decisions.next_best(mesh_, request, decision); });
    if (common_.memo != nullptr) {
      common_.memo->compare(mesh_, request, decision);
      const auto is_shared = [&](Id operand) { return at(users_, operand).size() > 1; };
      if (!common_.memo->differs_with_later_copies &&
          std::any_of(instruction.operands.begin(), instruction.operands.end(), is_shared))
        decided_.push_back({std::move(request), &decision, id});
    }

    for (int i = 0; i < isize(operands); ++i) {
      const Value before = at(operands, i);
      const Id next = builder_.computation().size();
      at(operands, i) = resharder_.to(before, at(decision.needed, i), [&] { return operand_of(i, instruction); });
      if (consumer_shardings_.is_stored_gradient(id) && at(operands, i).id >= next)
        resharder_.asked(before, at(operands, i));
    }
    const Value made = append(instruction, operands_of_leaves(builder_, old_, instruction, operands), decision.results);
    if (has_other_shardings(*decision.results, instruction))
      builder_.set_notes(made,
                         with_frontend_attribute(instruction.notes, kWhyAttribute,
                                                 computed_from(builder_.computation(), origins_, made.instruction())));
    return settle(id, take_apart(made));
  }

  [[nodiscard]] CopiesOfValues copies() const {
    CopiesOfValues out;
    for (const LeafValues& leaves : leaves_) {
      out.push_back(resharder_.copies_of(leaves));
      out.back().resize(leaves.size());
    }
    return out;
  }

  // Tells the memo whether an op would have decided otherwise with the copies that later ops need.
  void compare_with_later_copies() {
    for (Decided& decided : decided_)
      if (add_copies(decided.request, resharder_.copies_of(leaves_of_operands(old_[decided.id]))))
        common_.memo->compare_later(mesh_, decided.request, *decided.decision);
  }

  // Reshards results to annotated shardings, and reduces partial results that no consumer accepts.
  LeafValues settle(Id id, LeafValues leaves) {
    const auto& instruction = old_[id];
    origins_.set(leaves, id);
    for (int i = 0; i < isize(leaves); ++i) {
      Value& leaf = at(leaves, i);
      if (!leaf.type().is_array()) continue;
      const Sharding& required = at(*instruction.sharding, i);
      const Who by = [&] {
        return instruction.frontend_attribute(kSubjectAttribute) != nullptr
                   ? shown_value(instruction)
                   : fmt::format("the result of {}", shown_value(instruction));
      };
      if (!is_derived(required) && (!required.dims.empty() || required.kind != Sharding::Kind::kTiled)) {
        const Value before = leaf;
        leaf = resharder_.to(before, required.closed(), by, ReshardCause::kUse, id);
        resharder_.asked(before, leaf);
      } else if (sharding_of(leaf).is_partial() && (leaves.size() > 1 || !consumer_shardings_.may_stay_partial(id))) {
        const Value before = leaf;
        leaf = resharder_.reduced(before, required.closed().without_partial(), by);
        if (consumer_shardings_.is_stored_gradient(id)) resharder_.asked(before, leaf);
      }
    }
    return leaves;
  }

  struct Decided {
    OpRequest request;
    const OpDecision* decision;  // stored by OpDecisions
    Id id;
  };

  Common& common_;
  const CopiesOfValues* later_;
  std::vector<Decided> decided_;  // by ops whose operands other ops read too; only with a memo
  const Program& program_;
  const Computation& old_;
  const std::vector<ComputationId>& new_ids_;
  Builder builder_;
  bool is_entry_;
  const Shardings* root_;  // the required shardings of the results, by leaf; null if they stay as found
  std::vector<std::vector<Id>> users_;
  ConsumerShardings consumer_shardings_;
  ValueOrigins origins_;
  Mesh mesh_;
  std::vector<LeafValues> leaves_;
  ControlOrder order_{old_};
  std::optional<Value> op_;  // the instruction that does the work of the current one
  Resharder resharder_;
};

}  // namespace

Program insert_reshards(const Program& propagated, const MachineModel& machine, const OpChoices& choices) {
  DecisionMemo memo(machine);
  return insert_reshards(propagated, machine, choices, memo);
}

Program insert_reshards(const Program& propagated, const MachineModel& machine, const OpChoices& choices,
                        DecisionMemo& memo) {
  const Program reduced = split_sorts(split_top_k(split_reductions(propagated)));
  const Program program = choices.scans_by_parts ? split_scans(reduced) : reduced;
  const auto used = partitioned_computations(program);
  const RootTargets targets = root_targets(program, used);
  const bool compares = choices == OpChoices{};
  if (compares) memo.forget();
  Common common{program,
                machine,
                targets,
                memo.signatures,
                memo.decisions(choices.least_work),
                memo.shardings,
                choices.known_copies,
                compares ? &memo : nullptr};
  ProgramBuilder out(header_of(program));
  std::vector<ComputationId> new_ids(program.computations.size(), -1);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (!at(used, c)) {
      at(new_ids, c) = out.add(with_new_callees(at(program.computations, c), new_ids));
      continue;
    }
    CopiesOfValues later;
    if (choices.later_copies) (void)Inserter(common, c, new_ids, out, nullptr).run(&later);
    Inserter inserter(common, c, new_ids, out, choices.later_copies ? &later : nullptr);
    at(new_ids, c) = out.add(std::make_shared<const Computation>(inserter.run()));
  }
  return out.finish(at(new_ids, program.entry));
}

}  // namespace tessera

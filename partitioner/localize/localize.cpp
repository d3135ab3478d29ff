// SPDX-License-Identifier: Apache-2.0
#include "localize/localize.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective_passes/collective_match.h"
#include "localize/coordinate.h"
#include "localize/emit_windows.h"
#include "localize/realigned_reshape.h"
#include "normalize/manual.h"
#include "pipeline/aliases.h"
#include "pipeline/control_order.h"
#include "pipeline/leaves.h"
#include "propagation/factor_sharding.h"
#include "propagation/propagate.h"
#include "reshard_insertion/insert_reshards.h"
#include "reshard_planning/search.h"
#include "tessera/base/text.h"
#include "tessera/ir/localize_context.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

class Localizer {
 public:
  Localizer(const Program& program, ComputationId id, const std::vector<ComputationId>& new_ids, ProgramBuilder& out,
            std::int64_t& next_channel, const LocalizeOptions& options)
      : program_(program),
        old_(program[id]),
        new_ids_(new_ids),
        builder_(out.computation(old_.name)),
        next_channel_(next_channel),
        options_(options),
        is_entry_(id == program.entry) {}

  Computation run() {
    leaves_.resize(old_.instructions.size());
    for (Id id = 0; id < old_.size(); ++id) {
      const Id first = builder_.computation().size();
      at(leaves_, id) = rewrite_named(id);
      order_.set(id, first, builder_, at(leaves_, id));
      keep_own_attributes(old_[id], first);
    }
    Value root = put_together(builder_, old_.root_type(), at(leaves_, old_.root));
    if (is_entry_ && root.instruction().op->role != Role::kParameter)
      builder_.set_sharding(root, old_[old_.root].sharding);
    Computation made = std::move(builder_).finish(root);
    order_.keep(made);
    return made;
  }

 private:
  // Adds the program's name of the value to error messages.
  LeafValues rewrite_named(Id id) {
    try {
      return rewrite(id);
    } catch (InternalError&) {
      throw;
    } catch (Error& error) {
      throw error.prefix(fmt::format("%{}: {}: ", old_[id].name, old_[id].op->name));
    }
  }

  LeafValues rewrite(Id id) {
    const auto& instruction = old_[id];
    if (manual_border(instruction) != ManualBorder::kNone) return border(instruction);
    switch (instruction.op->role) {
      case Role::kParameter: return parameter(instruction);
      case Role::kTuple: return operand_leaves(instruction);
      case Role::kGetTupleElement:
        return element_of(old_[instruction.operands[0]].type, index_of(instruction),
                          at(leaves_, instruction.operands[0]));
      case Role::kOptBarrier: return barrier(instruction);
      case Role::kCopy: return copy(instruction);
      case Role::kCall:
      case Role::kWhile:
      case Role::kConditional: return control_flow(instruction);
      default: return plain(instruction);
    }
  }

  // Instructions that are created around an instruction, from id `first` on, keep its position and reason, but not the
  // attributes of its op.
  void keep_own_attributes(const Instruction& instruction, Id first) {
    if (!instruction.notes || instruction.notes->other.empty()) return;
    for (Id id = first; id < builder_.computation().size(); ++id) {
      const Value made = builder_.value(id);
      if (made.instruction().op != instruction.op) builder_.set_notes(made, for_another_op(made.instruction().notes));
    }
  }

  LeafValues operand_leaves(const Instruction& instruction) const {
    LeafValues out;
    for (const Id operand : instruction.operands)
      out.insert(out.end(), at(leaves_, operand).begin(), at(leaves_, operand).end());
    return out;
  }

  LeafValues parameter(const Instruction& instruction) {
    Instruction local = instruction;
    local.type = shard_type(instruction.type, *instruction.sharding);
    if (!is_entry_) local.sharding = nullptr;
    return remember(instruction, take_apart_plain(builder_.append(std::move(local))));
  }

  // take_apart copies shardings to the leaves, but in a per-device program only entry parameters have shardings.
  LeafValues take_apart_plain(Value value) {
    const ShardingRef sharding = value.instruction().sharding;
    builder_.set_sharding(value, nullptr);
    LeafValues out = take_apart(value);
    builder_.set_sharding(value, sharding);
    return out;
  }

  LeafValues barrier(const Instruction& instruction) {
    LeafValues out = ops::opt_barrier(operand_leaves(instruction));
    for (Value& value : out) builder_.set_notes(value, instruction.notes);
    return remember(instruction, std::move(out));
  }

  // The bytes are the same outside and inside; inside, the padding of an uneven tile is zero.
  LeafValues border(const Instruction& instruction) {
    Value value = at(leaves_, instruction.operands[0]).front();
    const Type& global = old_[instruction.operands[0]].type;
    const Sharding& sharding = old_[instruction.operands[0]].sharding->front();
    std::vector<int> dims;
    for (int d = 0; d < global.ndim() && manual_border(instruction) == ManualBorder::kEnter; ++d)
      if (global.dim(d) % sharding.tiles(d) != 0) dims.push_back(d);
    if (manual_border(instruction) == ManualBorder::kLeave && options_.keep_shardings)
      // Elements outside of the global array are padding only after the border.
      return remember(instruction, {ops::copy(value)});
    if (!dims.empty()) {
      builder_.default_notes = instruction.notes;
      value = emit_mask(builder_, value, global, sharding, dims, ops::constant(builder_, scalar_of(global.dtype(), 0)));
      builder_.default_notes = nullptr;
    }
    return {value};
  }

  // In a region, values differ along its manual axes. The planner sees these values as tiles of additional leading
  // dims.
  Value reshard_in_region(const Instruction& instruction, Value value, const Type& global, const Sharding& from,
                          const Sharding& to, const std::vector<AxisRef>& axes) {
    Dims dims;
    Sharding source = from;
    Sharding target = to;
    std::vector<DimSharding> front;
    for (const AxisRef& axis : axes) {
      dims.push_back(axis.size);
      front.push_back({{axis}, false, {}});
    }
    Dims ones(dims.size(), 1);
    source.dims.insert(source.dims.begin(), front.begin(), front.end());
    target.dims.insert(target.dims.begin(), front.begin(), front.end());
    dims.insert(dims.end(), global.dims().begin(), global.dims().end());
    const ReshardPlan plan = plan_reshard(Type::array(global.dtype(), dims), source, target, options_.topology);
    if (plan.steps.empty()) return value;
    Dims before = ones;
    before.insert(before.end(), value.type().dims().begin(), value.type().dims().end());
    const Value moved =
        ReshardEmitter{builder_, next_channel_, instruction.notes}.emit(ops::reshape(value, before), plan);
    return ops::reshape(moved, shard_type(global, to).dims());
  }

  LeafValues copy(const Instruction& instruction) {
    LeafValues out = operand_leaves(instruction);
    const auto& from = *old_[instruction.operands[0]].sharding;
    for (int i = 0; i < isize(out); ++i) {
      const Type global = leaf_type(instruction.type, i);
      if (!global.is_array()) continue;
      if (const auto axes = manual_axes(program_, instruction); !axes.empty()) {
        builder_.default_notes = instruction.notes;
        at(out, i) =
            reshard_in_region(instruction, at(out, i), global, at(from, i), at(*instruction.sharding, i), axes);
        builder_.default_notes = nullptr;
        continue;
      }
      const auto planner = options_.idle_axes ? plan_reshard : reshard::plan_without_idle_axes;
      const ReshardPlan plan = planner(global, at(from, i), at(*instruction.sharding, i), options_.topology);
      if (plan.steps.empty()) continue;
      builder_.default_notes = instruction.notes;
      const Value moved = ReshardEmitter{builder_, next_channel_, instruction.notes}.emit(at(out, i), plan);
      // An array that no collective moves may have two shardings with different padding.
      at(out, i) = options_.keep_shardings && moved.id == at(out, i).id ? ops::copy(moved) : moved;
      builder_.default_notes = nullptr;
    }
    return remember(instruction, std::move(out));
  }

  static Type leaf_type(const Type& type, int leaf) { return at(type.leaves(), leaf); }

  LeafValues control_flow(const Instruction& instruction) {
    Instruction local = instruction;
    for (int i = 0; i < isize(instruction.operands); ++i) {
      const Id operand = at(instruction.operands, i);
      at(local.operands, i) = put_together(builder_, old_[operand].type, at(leaves_, operand)).id;
    }
    for (auto& called : local.called) called = at(new_ids_, called);
    local.type = shard_type(instruction.type, *instruction.sharding);
    local.sharding = nullptr;
    local.control_predecessors.clear();
    return remember(instruction, take_apart(builder_.append(std::move(local))));
  }

  LeafValues plain(const Instruction& instruction) {
    const OpView view = view_of(program_, old_, instruction);
    const FactorMap map = factor_map(view);
    if (instruction.op->role == Role::kCollective) return collective(instruction);
    if (const auto reshape = realigned_reshape(old_, instruction)) return realigned(instruction, *reshape);
    require_partial_values(instruction);
    LocalizeContext context{builder_, view, {}, {}, *instruction.sharding, {}, instruction.notes, {}, {}, {}, {}};
    for (const ComputationId called : instruction.called) context.called.push_back(at(new_ids_, called));
    for (const Id operand : instruction.operands) {
      context.operands.push_back(put_together(builder_, old_[operand].type, at(leaves_, operand)));
      context.operand_shardings.push_back(old_[operand].sharding->empty() ? Sharding()
                                                                          : old_[operand].sharding->front());
    }
    const auto leaves = instruction.type.leaves();
    for (int i = 0; i < isize(leaves); ++i)
      context.local_results.push_back(shard_type(at(leaves, i), at(*instruction.sharding, i)));
    const Mesh& mesh = instruction.sharding->empty() ? program_.meshes.front() : instruction.sharding->front().mesh;
    context.coordinate = [this, mesh](const std::vector<AxisRef>& axes) { return coordinates_.of(mesh, axes); };
    context.shard_start = [this](const Sharding& sharding, int dim, std::int64_t size) {
      return coordinates_.shard_start(sharding, dim, size);
    };
    if (map.windows.size() > 1)
      if (const auto value = joined(instruction, context)) return remember(instruction, {*value});
    builder_.default_notes = instruction.notes;
    if (!instruction.op->masks_padding) mask_reduced_padding(map, context);
    WindowEmitter windows{context, next_channel_, map, instruction,
                          strategy_of(map, leaf_shardings(instruction), *instruction.sharding)};
    if (!map.windows.empty())
      windows.widen_operands(
          [&](int operand) -> const Instruction& { return old_[at(instruction.operands, operand)]; });
    Value value =
        instruction.op->localize != nullptr ? instruction.op->localize(context) : generic(instruction, context);
    if (is_operand(instruction, value)) value = ops::copy(value);
    builder_.default_notes = nullptr;
    builder_.set_name(value, instruction.name);
    LeafValues out = take_apart(value);
    if (!map.windows.empty()) windows.crop_results(out);
    for (int i = 0; i < isize(out); ++i)
      ensure(at(out, i).type() == at(context.local_results, i), "{} %{} {} localizes to {}, expected {}",
             instruction.op->name, instruction.name, instruction.sharding->front(), at(out, i).type(),
             at(context.local_results, i));
    return remember(instruction, std::move(out));
  }

  LeafValues realigned(const Instruction& instruction, const RealignedReshape& reshape) {
    builder_.default_notes = instruction.notes;
    const Value value =
        emit_realigned(builder_, next_channel_, instruction.notes, at(leaves_, instruction.operands[0]).front(),
                       reshape, shard_type(instruction.type, reshape.result));
    builder_.default_notes = nullptr;
    builder_.set_name(value, instruction.name);
    return remember(instruction, {value});
  }

  [[nodiscard]] bool is_operand(const Instruction& instruction, const Value& value) const {
    return std::any_of(instruction.operands.begin(), instruction.operands.end(), [&](Id operand) {
      const LeafValues& leaves = at(leaves_, operand);
      return std::any_of(leaves.begin(), leaves.end(), [&](const Value& leaf) { return leaf.id == value.id; });
    });
  }

  // Devices with nothing to add to a sum must be able to add zero.
  static void require_partial_values(const Instruction& instruction) {
    const auto leaves = instruction.type.leaves();
    for (int i = 0; i < isize(leaves); ++i) {
      const Sharding& sharding = at(*instruction.sharding, i);
      const bool is_sum = sharding.is_partial() && sharding.reduction == Reduction::kSum;
      require(!is_sum || at(leaves, i).dtype() != DType::kF8E8M0FNU,
              "f8e8m0fnu has no zero, so a sum of it cannot be partial, as in {}; convert it first", sharding);
    }
  }

  // Parts of a concatenation, each sent directly from the device that holds it.
  std::optional<Value> joined(const Instruction& instruction, LocalizeContext& context) {
    const auto join = sharded_concatenate_of(program_, old_, instruction);
    if (!join) return std::nullopt;
    std::vector<Value> shards;
    for (const Id id : join->values) shards.push_back(at(leaves_, id).front());
    builder_.default_notes = instruction.notes;
    const auto value = emit_join(context, next_channel_, *join, shards, old_[join->values.front()]);
    builder_.default_notes = nullptr;
    const bool made = value && std::none_of(shards.begin(), shards.end(), [&](Value v) { return v.id == value->id; });
    if (made) builder_.set_name(*value, instruction.name);
    return value;
  }

  [[nodiscard]] std::vector<Sharding> leaf_shardings(const Instruction& instruction) const {
    std::vector<Sharding> out;
    for (const Id operand : instruction.operands)
      out.insert(out.end(), old_[operand].sharding->begin(), old_[operand].sharding->end());
    return out;
  }

  // A collective that the user wrote in a region: unchanged on the local value, but with a new channel.
  LeafValues collective(const Instruction& instruction) {
    EmitOptions options;
    options.type = shard_type(instruction.type, *instruction.sharding);
    for (const ComputationId called : instruction.called) options.called.push_back(at(new_ids_, called));
    options.notes = instruction.notes;
    options.name = instruction.name;
    std::vector<Value> operands;
    for (const Id operand : instruction.operands) operands.push_back(at(leaves_, operand).front());
    return remember(instruction, take_apart(builder_.emit(*instruction.op, operands,
                                                          with_channel(instruction.attributes, next_channel_++),
                                                          std::move(options))));
  }

  Value generic(const Instruction& instruction, const LocalizeContext& context) {
    EmitOptions options;
    options.type =
        instruction.type.is_tuple() ? shard_type(instruction.type, *instruction.sharding) : context.local_result();
    options.called = context.called;
    options.notes = instruction.notes;
    options.name = instruction.name;
    return builder_.emit(*instruction.op, context.operands, instruction.attributes, std::move(options));
  }

  // For tools: records the global value that each local value represents.
  LeafValues remember(const Instruction& instruction, LeafValues leaves) {
    // The leaves of a barrier have shardings already.
    if (!options_.keep_shardings || !instruction.sharding) return leaves;
    for (int i = 0; i < isize(leaves); ++i) {
      const Type global = leaf_type(instruction.type, i);
      Value& value = at(leaves, i);
      if (!global.is_array() || value.instruction().op->role == Role::kParameter) continue;
      const ShardingRef& known = value.instruction().sharding;
      if (known && *known != std::vector{at(*instruction.sharding, i)})
        value = ops::copy(value);  // one value with two shardings
      builder_.set_sharding(value, make_sharding(at(*instruction.sharding, i)));
      builder_.set_notes(value, with_frontend_attribute(value.instruction().notes, kGlobalDimsAttribute,
                                                        fmt::format("{}", fmt::join(global.dims(), ","))));
    }
    return leaves;
  }

  const Program& program_;
  const Computation& old_;
  const std::vector<ComputationId>& new_ids_;
  Builder builder_;
  std::int64_t& next_channel_;
  LocalizeOptions options_;
  bool is_entry_;
  std::vector<LeafValues> leaves_;
  ControlOrder order_{old_};
  Coordinates coordinates_{builder_};
};

// Removes manual axes: a per-device program needs no regions.
void leave_regions(Computation& computation) {
  for (Instruction& instruction : computation.instructions)
    if (instruction.frontend_attribute(kManualAxesAttribute) != nullptr)
      instruction.notes = with_frontend_attribute(instruction.notes, kManualAxesAttribute, std::nullopt);
}

}  // namespace

Program localize(const Program& program, const LocalizeOptions& options) {
  const auto used = partitioned_computations(program);
  Program header = header_of(program);
  header.partitioned = true;
  header.lowered = false;
  header.aliases = aliases_of_shards(program);
  header.propagate_to_parameters.clear();
  header.propagate_to_output.clear();
  ProgramBuilder out(header);
  std::vector<ComputationId> new_ids(program.computations.size(), -1);
  std::int64_t next_channel = free_channel(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (!at(used, c)) {
      auto copy = std::make_shared<Computation>(program[c]);
      for (auto& instruction : copy->instructions)
        for (auto& called : instruction.called) called = at(new_ids, called);
      at(new_ids, c) = out.add(ComputationRef(std::move(copy)));
      continue;
    }
    Computation done = Localizer(program, c, new_ids, out, next_channel, options).run();
    leave_regions(done);
    at(new_ids, c) = out.add(std::make_shared<const Computation>(std::move(done)));
  }
  return out.finish(at(new_ids, program.entry));
}

}  // namespace tessera

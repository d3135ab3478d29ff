// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "collective_passes/collective_match.h"
#include "localize/localize.h"
#include "tessera/base/text.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// Integer scalars that depend only on the device: partition-id, constants, tables, arithmetic.
class DeviceValues {
 public:
  DeviceValues(const Program& program, const Computation& computation) : program_(program), computation_(computation) {}

  /// The values by device; nullopt if the value depends on more than the device.
  std::optional<Dims> scalar(Id id) {
    const auto* values = evaluated(id, kMostSteps);
    if (values == nullptr || values->front().type().ndim() != 0 || !is_integer(values->front().type().dtype()))
      return std::nullopt;
    Dims out;
    for (const Literal& value : *values) out.push_back(element_as_index(value, 0));
    return out;
  }

 private:
  static constexpr int kMostSteps = 32;  // in a chain
  static constexpr std::int64_t kMostElements = 1 << 16;

  const std::vector<Literal>* evaluated(Id id, int steps) {
    if (!known_.contains(id)) known_[id] = steps > 0 ? evaluate(id, steps) : std::vector<Literal>();
    const auto& values = known_.at(id);
    return values.empty() ? nullptr : &values;
  }

  std::vector<Literal> evaluate(Id id, int steps) {
    const Instruction& instruction = computation_[id];
    const Role role = instruction.op->role;
    const bool may = (role == Role::kPlain || known_constant(instruction) != nullptr || role == Role::kPartitionId ||
                      role == Role::kCopy) &&
                     instruction.op->evaluate != nullptr && instruction.called.empty() &&
                     !has_side_effect(instruction) && instruction.type.is_array() &&
                     instruction.type.element_count() <= kMostElements;
    if (!may) return {};
    std::vector<const std::vector<Literal>*> operands;
    for (const Id operand : instruction.operands) {
      if (evaluated(operand, steps - 1) == nullptr) return {};
      operands.push_back(&known_.at(operand));
    }
    const OpView view = view_of(program_, computation_, instruction);
    std::vector<Literal> out;
    for (std::int64_t device = 0; device < program_.num_partitions; ++device) {
      std::vector<Literal> here;
      for (const auto* values : operands) here.push_back(at(*values, device));
      out.push_back(instruction.op->evaluate({.view = view,
                                              .operands = here,
                                              .call = nullptr,
                                              .partition = device,
                                              .partition_count = program_.num_partitions}));
    }
    return out;
  }

  const Program& program_;
  const Computation& computation_;
  std::unordered_map<Id, std::vector<Literal>> known_;  // empty if the value depends on more than the device
};

/// A dynamic-slice of a single dim.
struct DimSlice {
  int dim = 0;
  std::int64_t size = 0;
  Dims starts;  // by device, clamped
};

class Simplifier {
 public:
  explicit Simplifier(const Program& program) : program_(program) {}

  bool touches(const Computation& computation) {
    const bool any = std::any_of(computation.instructions.begin(), computation.instructions.end(),
                                 [](const auto& i) { return i.op->role == Role::kCollective; });
    if (!any) return false;
    look_at(computation);
    for (Id id = 0; id < computation.size(); ++id)
      if (exchanges_nothing(id) || is_own_part(id) || scattered_groups(id) || is_gathered_scatter(id)) return true;
    return false;
  }

  Value rewritten(ComputationRewriter& r, Id id) {
    if (&r.from() != computation_) look_at(r.from());
    const Instruction& instruction = r.from()[id];
    if (exchanges_nothing(id)) return r.mapped(instruction.operands[0]);
    if (is_own_part(id)) return r.mapped(r.from()[instruction.operands[0]].operands[0]);
    if (auto groups = scattered_groups(id)) return scatter(r, id, std::move(*groups));
    if (is_gathered_scatter(id)) return reduce_all(r, id);
    return {};
  }

 private:
  void look_at(const Computation& computation) {
    computation_ = &computation;
    uses_ = computation.use_counts();
    values_.emplace(program_, computation);
  }
  [[nodiscard]] const Instruction& operand_of(Id id) const { return (*computation_)[(*computation_)[id].operands[0]]; }

  [[nodiscard]] bool exchanges_nothing(Id id) const {
    const Instruction& instruction = (*computation_)[id];
    if (!instruction.control_predecessors.empty()) return false;
    if (is_single(instruction, CollectiveKind::kPermute)) {
      const auto& pairs = attributes_as<PermuteAttributes>(instruction.attributes).source_target_pairs.pairs;
      return isize(pairs) == program_.num_partitions &&
             std::all_of(pairs.begin(), pairs.end(), [](const auto& pair) { return pair.first == pair.second; });
    }
    for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather})
      if (is_single(instruction, kind)) return size_of_groups(program_, instruction) == 1;
    return false;
  }

  // The dim and starts of a dynamic-slice whose operand is a collective of the kind.
  std::optional<DimSlice> dim_slice_of(Id id, CollectiveKind kind) {
    const Instruction& instruction = (*computation_)[id];
    if (instruction.op != &rows::kDynamicSlice || !is_single(operand_of(id), kind)) return std::nullopt;
    if (!operand_of(id).control_predecessors.empty() || !instruction.control_predecessors.empty()) return std::nullopt;
    std::optional<DimSlice> part;
    const Type& operand = operand_of(id).type;
    for (int d = 0; d < operand.ndim(); ++d) {
      if (instruction.type.dim(d) == operand.dim(d)) continue;
      if (part || isize(instruction.operands) != operand.ndim() + 1) return std::nullopt;
      auto starts = values_->scalar(at(instruction.operands, d + 1));
      if (!starts) return std::nullopt;
      for (auto& start : *starts) start = std::clamp<std::int64_t>(start, 0, operand.dim(d) - instruction.type.dim(d));
      part = DimSlice{d, instruction.type.dim(d), std::move(*starts)};
    }
    return part;
  }

  // Whether this is dynamic-slice(all-gather(x)) that returns the device's own x. The gather may be an unshard of FSDP:
  // the slice then reads the stored shard, and the gather stays for its other consumers. No gathered value lives longer.
  bool is_own_part(Id id) {
    const auto part = dim_slice_of(id, CollectiveKind::kAllGather);
    if (!part) return false;
    const Instruction& gather = operand_of(id);
    if ((*computation_)[gather.operands[0]].type != (*computation_)[id].type) return false;
    if (attributes_as<CollectiveAttributes>(gather.attributes).dimensions != Dims{part->dim}) return false;
    std::int64_t seen = 0;
    for (const auto& group : groups_of(program_, gather))
      for (std::int64_t k = 0; k < isize(group); ++k, ++seen)
        if (at(part->starts, at(group, k)) != k * part->size) return false;
    return seen == program_.num_partitions;
  }

  // The all-reduce may be a stored gradient of FSDP. Nothing else reads it, so it is not stored itself, and the
  // reduce-scatter keeps its mark.
  //
  // For dynamic-slice(all-reduce(x)) in which the members of each group read different parts: the groups, in the order
  // of their parts.
  std::optional<std::vector<std::vector<std::int64_t>>> scattered_groups(Id id) {
    const auto part = dim_slice_of(id, CollectiveKind::kAllReduce);
    if (!part || at(uses_, (*computation_)[id].operands[0]) != 1) return std::nullopt;
    const Instruction& reduce = operand_of(id);
    const auto size = size_of_groups(program_, reduce);
    if (!size || *size < 2 || *size * part->size != reduce.type.dim(part->dim)) return std::nullopt;
    auto groups = groups_of(program_, reduce);
    if (isize(groups) * *size != program_.num_partitions) return std::nullopt;
    for (auto& group : groups) {
      std::sort(group.begin(), group.end(), [&](auto a, auto b) { return at(part->starts, a) < at(part->starts, b); });
      for (std::int64_t k = 0; k < isize(group); ++k)
        if (at(part->starts, at(group, k)) != k * part->size) return std::nullopt;
    }
    return groups;
  }

  Value scatter(ComputationRewriter& r, Id id, std::vector<std::vector<std::int64_t>> groups) {
    const Instruction& slice = r.from()[id];
    Instruction out = r.translated(slice.operands[0]);
    CollectiveAttributes attributes = attributes_as<CollectiveAttributes>(out.attributes);
    attributes.replica_groups.groups = std::move(groups);
    const auto part = dim_slice_of(id, CollectiveKind::kAllReduce);
    attributes.dimensions = {part->dim};
    return replaced(r, slice, std::move(out), rows::kReduceScatter, std::move(attributes));
  }

  bool is_gathered_scatter(Id id) const {
    const Instruction& gather = (*computation_)[id];
    if (!is_single(gather, CollectiveKind::kAllGather) || !gather.control_predecessors.empty()) return false;
    const Instruction& scatter = operand_of(id);
    if (!is_single(scatter, CollectiveKind::kReduceScatter) || at(uses_, gather.operands[0]) != 1) return false;
    if (is_pinned(gather) || is_pinned(scatter) || !scatter.control_predecessors.empty()) return false;
    return attributes_as<CollectiveAttributes>(gather.attributes).dimensions ==
               attributes_as<CollectiveAttributes>(scatter.attributes).dimensions &&
           groups_of(program_, gather) == groups_of(program_, scatter) &&
           gather.type == (*computation_)[scatter.operands[0]].type;
  }
  Value reduce_all(ComputationRewriter& r, Id id) {
    const Instruction& gather = r.from()[id];
    Instruction out = r.translated(gather.operands[0]);
    CollectiveAttributes attributes = attributes_as<CollectiveAttributes>(out.attributes);
    attributes.dimensions.clear();
    return replaced(r, gather, std::move(out), rows::kAllReduce, std::move(attributes));
  }

  // Appends `out` as another op, with the type and place of `old`.
  static Value replaced(ComputationRewriter& r, const Instruction& old, Instruction out, const OpDef& op,
                        CollectiveAttributes attributes) {
    out.op = &op;
    out.type = old.type;
    out.sharding = old.sharding;
    out.attributes = make_attributes(std::move(attributes));
    out.name = old.name;
    const auto* dims = old.frontend_attribute(kGlobalDimsAttribute);
    out.notes = with_frontend_attribute(out.notes, kGlobalDimsAttribute,
                                        dims != nullptr ? std::optional<std::string>(*dims) : std::nullopt);
    return r.builder().append(std::move(out));
  }

  const Program& program_;
  const Computation* computation_ = nullptr;
  std::vector<int> uses_;
  std::optional<DeviceValues> values_;
};

}  // namespace

Program simplify_collectives(const Program& program) {
  Program now = program;
  constexpr int kMostRounds = 4;  // a rewrite may enable another one
  for (int round = 0; round < kMostRounds; ++round) {
    Simplifier simplifier(now);
    const bool any = std::any_of(now.computations.begin(), now.computations.end(),
                                 [&](const ComputationRef& c) { return simplifier.touches(*c); });
    if (!any) break;
    now = remove_dead_code(rewrite(
        now, [&](ComputationRewriter& r, Id id) { return simplifier.rewritten(r, id); },
        [&](const Computation& c) { return simplifier.touches(c); }));
  }
  return now;
}

}  // namespace tessera

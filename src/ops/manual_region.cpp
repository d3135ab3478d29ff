// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/manual_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

std::string axes_attribute(const ManualRegion& region) {
  std::vector<std::string> names;
  for (const AxisRef& axis : region.axes) names.push_back(fmt::format("\"{}\"", region.mesh.axis_text(axis)));
  return fmt::format("#sdy<manual_axes{{{}}}>", fmt::join(names, ", "));
}

// The texts between quotes.
std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t from = text.find('"'); from != std::string::npos; from = text.find('"', from)) {
    const auto to = text.find('"', from + 1);
    if (to == std::string::npos) break;
    out.push_back(text.substr(from + 1, to - from - 1));
    if (!out.back().empty() && out.back().back() == '\\') out.back().pop_back();
    from = to + 1;
  }
  return out;
}

// Adds the axes of the region to the notes of a border.
Value with_axes(Value border, const ManualRegion& region) {
  border.builder->set_notes(
      border, with_frontend_attribute(border.instruction().notes, kSdyManualAxes, axes_attribute(region)));
  return border;
}

// Of the axes of each dim, those that the region handles; dims that it leaves to the partitioner are open.
Sharding open_for_others(const Sharding& placement, const ManualRegion& region) {
  Sharding out = placement;
  const bool has_others = axes_size(region.axes) < region.mesh.device_count();
  for (auto& dim : out.dims) dim.open = has_others;
  return out;
}

}  // namespace

std::vector<AxisRef> ManualRegion::axes_not_in(const Sharding& placement) const {
  std::vector<AxisRef> out = axes;
  const auto used = placement.used_axes();
  std::erase_if(out, [&](const AxisRef& axis) { return overlaps_any(used, axis); });
  return out;
}

std::optional<ManualRegion> region_of_border(const Instruction& border) {
  const std::string* text = border.frontend_attribute(kSdyManualAxes);
  if (text == nullptr || !border.sharding || border.sharding->empty()) return std::nullopt;
  ManualRegion region{border.sharding->front().mesh, {}};
  for (const std::string& name : quoted(*text))
    if (const AxisRef axis = region.mesh.full_axis(name); axis.size > 1) region.axes.push_back(axis);
  return region;
}

Sharding placement_at_entry(Value border) {
  const auto region = region_of_border(border.instruction());
  const Instruction& mark = (*border.builder)[border.instruction().operands.front()];
  ensure(region.has_value() && mark.sharding && mark.sharding->size() == 1, "%{} is not a border of a named region",
         border.instruction().name);
  Sharding out = mark.sharding->front();
  for (auto& dim : out.dims)
    std::erase_if(dim.axes, [&](const AxisRef& axis) { return !overlaps_any(region->axes, axis); });
  return out;
}

std::optional<Sharding> border_placement(const Program& program, const Instruction& border) {
  const std::string* text = border.frontend_attribute(kBorderPlacementAttribute);
  if (text == nullptr) return std::nullopt;
  const auto leaves = parse_sdy_shardings(*text, program.meshes);
  require(leaves.size() == 1, "{} must hold one sharding: {}", kBorderPlacementAttribute, *text);
  return leaves.front();
}

// ---- equal values ------------------------------------------------------------------------------------------------------

namespace {

/// Decides whether the devices of one class have equal values, from the operands to the result.
class EqualValues {
 public:
  EqualValues(Builder& builder, const ReplicaGroups& groups) : builder_(builder) {
    for (int g = 0; g < isize(groups.groups); ++g)
      for (const auto device : at(groups.groups, g)) class_of_[device] = g;
  }

  bool holds(Id root) {
    known_.assign(static_cast<std::size_t>(root) + 1, Known::kNot);
    std::vector<Id> needed{root};
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (is_settled(needed[i])) continue;
      for (const Id operand : builder_[needed[i]].operands) {
        if (at(known_, operand) != Known::kNot) continue;
        at(known_, operand) = Known::kSoon;
        needed.push_back(operand);
      }
    }
    std::sort(needed.begin(), needed.end());  // operands come before their users
    for (const Id id : needed) at(known_, id) = decide(id) ? Known::kEqual : Known::kDiffers;
    return at(known_, root) == Known::kEqual;
  }

 private:
  enum class Known : std::uint8_t { kNot, kSoon, kEqual, kDiffers };

  // Whether the result is equal within classes for any operands.
  bool is_settled(Id id) {
    const Instruction& instruction = builder_[id];
    if (instruction.op->role == Role::kParameter || manual_border(instruction) == ManualBorder::kLeave) return true;
    return instruction.op->role == Role::kCollective && gives_all_the_same(instruction) &&
           groups_contain_classes(instruction);
  }

  bool decide(Id id) {
    if (is_settled(id)) return true;
    const Instruction& instruction = builder_[id];
    if (instruction.op->role == Role::kPartitionId) return false;
    if (manual_border(instruction) == ManualBorder::kEnter && !holds_same_tile(id)) return false;
    if (instruction.op->role == Role::kCollective && !keeps_classes(instruction)) return false;
    if (communicates_inside(instruction)) return false;
    return std::all_of(instruction.operands.begin(), instruction.operands.end(),
                       [&](Id operand) { return at(known_, operand) == Known::kEqual; });
  }

  // Whether the devices of each class enter with the same tile.
  bool holds_same_tile(Id border) {
    if (!region_of_border(builder_[border])) return false;
    const Sharding placement = placement_at_entry(builder_.value(border));
    std::map<int, std::int64_t> tile_of_class;
    const auto axes = placement.used_axes();
    for (const auto& [device, own] : class_of_) {
      const std::int64_t tile = placement.mesh.coordinate(placement.mesh.position_of(device), axes);
      if (tile_of_class.try_emplace(own, tile).first->second != tile) return false;
    }
    return true;
  }

  // Whether the devices of each class are in one group.
  bool groups_contain_classes(const Instruction& instruction) {
    std::map<int, int> group_of_class;
    std::size_t found = 0;
    const auto& groups = attributes_as<CollectiveAttributes>(instruction.attributes).replica_groups.groups;
    for (int g = 0; g < isize(groups); ++g)
      for (const auto device : at(groups, g)) {
        const auto own = class_of_.find(device);
        if (own == class_of_.end()) continue;
        ++found;
        if (group_of_class.try_emplace(own->second, g).first->second != g) return false;
      }
    return found == class_of_.size();
  }

  // Whether a collective gives equal results to the devices of a class if its operands are equal within classes.
  bool keeps_classes(const Instruction& instruction) {
    if (const auto* permute = attributes_if<PermuteAttributes>(instruction.attributes)) return keeps_sources(*permute);
    const auto* collective = attributes_if<CollectiveAttributes>(instruction.attributes);
    if (collective == nullptr || collective->replica_groups.groups.empty()) return false;
    std::map<int, std::vector<int>> seen;  // of each class: the classes of the members of its devices' groups
    for (const auto& group : collective->replica_groups.groups)
      for (int place = 0; place < isize(group); ++place) {
        const auto own = class_of_.find(at(group, place));
        if (own == class_of_.end()) return false;
        std::vector<int> members = classes_of(group);
        if (!gives_all_the_same(instruction)) members.push_back(-1 - place);
        const auto [entry, is_new] = seen.try_emplace(own->second, members);
        if (!is_new && entry->second != members) return false;
      }
    return true;
  }
  static bool gives_all_the_same(const Instruction& instruction) {
    const CollectiveKind kind = instruction.op->collective;
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather;
  }
  std::vector<int> classes_of(const std::vector<std::int64_t>& group) {
    std::vector<int> out;
    for (const auto device : group) out.push_back(class_of_.contains(device) ? class_of_.at(device) : -1);
    return out;
  }
  bool keeps_sources(const PermuteAttributes& permute) {
    std::map<std::int64_t, int> source_class;  // by target
    for (const auto& [source, target] : permute.source_target_pairs.pairs)
      source_class[target] = class_of_.contains(source) ? class_of_.at(source) : -1;
    std::map<int, int> seen;
    for (const auto& [device, own] : class_of_) {
      const int source = source_class.contains(device) ? source_class.at(device) : -1;
      if (seen.try_emplace(own, source).first->second != source) return false;
    }
    return true;
  }

  // Whether a computation that the instruction calls distinguishes devices.
  bool communicates_inside(const Instruction& instruction) {
    return std::any_of(instruction.called.begin(), instruction.called.end(), [&](ComputationId id) {
      const Computation& called = builder_.program().program()[id];
      return std::any_of(called.instructions.begin(), called.instructions.end(), [&](const Instruction& inner) {
        return manual_border(inner) != ManualBorder::kNone || inner.op->role == Role::kPartitionId ||
               inner.op->role == Role::kCollective || communicates_inside(inner);
      });
    });
  }

  Builder& builder_;
  std::map<std::int64_t, int> class_of_;
  std::vector<Known> known_;  // by value
};

}  // namespace

bool is_equal_within(Value x, const ReplicaGroups& groups) { return EqualValues(*x.builder, groups).holds(x.id); }

// ---- instructions --------------------------------------------------------------------------------------------------------

namespace ops {

std::int64_t new_channel(const Builder& builder) { return builder.computation().size() + 1; }

Value enter_region(Value global, const Sharding& placement, const ManualRegion& region) {
  if (region.mesh.device_count() == 1) return global;
  const Value marked = sharding_mark(global, open_for_others(placement, region));
  const Value border =
      custom_call(*global.builder, "SPMDFullToShardShape", {marked}, shard_type(global.type(), placement));
  Sharding inside = Sharding::replicated(region.mesh, global.type().ndim());
  for (auto& dim : inside.dims) dim.open = true;
  inside.manual = region.axes;
  std::sort(inside.manual.begin(), inside.manual.end());
  global.builder->set_sharding(border, make_sharding(std::move(inside)));
  return with_axes(border, region);
}

Value leave_region(Value local, const Type& global, const Sharding& placement, const ManualRegion& region) {
  if (region.mesh.device_count() == 1) return local;
  const Value border = custom_call(*local.builder, "SPMDShardToFullShape", {local}, global);
  local.builder->set_sharding(border, make_sharding(open_for_others(placement, region)));
  return with_axes(border, region);
}

Value all_reduce_over(Value x, Reduction reduction, const Mesh& mesh, const std::vector<AxisRef>& axes) {
  if (axes_size(axes) == 1) return x;
  return all_reduce(x, reduction, {mesh.groups(axes)}, new_channel(*x.builder));
}

Value sum_within(Value x, const ReplicaGroups& groups) {
  const auto count = groups.groups.empty() ? 1 : isize(groups.groups.front());
  if (count == 1) return x;
  if (is_equal_within(x, groups))
    return multiply(x, splat(scalar(*x.builder, x.type().dtype(), count), x.type().dims()));
  return all_reduce(x, Reduction::kSum, groups, new_channel(*x.builder));
}

}  // namespace ops
}  // namespace tessera

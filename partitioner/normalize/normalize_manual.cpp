// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "normalize/manual.h"
#include "normalize/manual_regions.h"
#include "propagation/propagate.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

bool calls_partitioned(const Instruction& old) {
  return old.op->role == Role::kCall || old.op->role == Role::kWhile || old.op->role == Role::kConditional;
}

/// Lowers computations for each manual context in which they occur.
class Normalizer {
 public:
  explicit Normalizer(const Program& program)
      : program_(program),
        out_(program),
        with_effects_(computations_with_effects(program)),
        regions_(program),
        has_borders_(has_manual_regions(program)) {
    out_.computations.clear();
    out_.meshes = regions_.meshes();
  }

  Program run() {
    out_.entry = lowered(program_.entry, {});
    return std::move(out_);
  }

 private:
  // `is_function`: the computation works on scalars, such as that of a reduction; annotations in it have no effect.
  ComputationId lowered(ComputationId id, const Axes& context, bool is_function = false) {
    if (const auto made = made_.find({id, context}); made != made_.end()) return made->second;
    Computation done = lower(program_[id], context, is_function);
    const std::string base = done.name;
    for (int k = 1; !names_.insert(done.name).second; ++k) done.name = fmt::format("{}.manual{}", base, k);
    out_.computations.push_back(std::make_shared<const Computation>(std::move(done)));
    const auto made = static_cast<ComputationId>(out_.computations.size()) - 1;
    made_[{id, context}] = made;
    return made;
  }

  struct Work {
    const Computation& from;
    ManualAxes manual;                                  // of the old values
    std::vector<Id> values{};                           // old -> new
    std::map<std::pair<Id, Axes>, Id> values_within{};  // old value and other manual axes of a reader -> new
    Computation to{};
    std::set<std::string> taken{};
  };

  Computation lower(const Computation& from, const Axes& context, bool is_function) {
    Work work{from, ManualAxes(regions_, from, context, is_function, with_effects_)};
    work.to.name = from.name;
    work.to.execution_thread = from.execution_thread;
    for (const auto& instruction : from.instructions) work.taken.insert(instruction.name);
    for (Id id = 0; id < from.size(); ++id) {
      work.values.push_back(rewritten(work, id));
      if (from[id].op->role == Role::kParameter) {
        const auto number = attributes_as<ParameterAttributes>(from[id].attributes).number;
        if (isize(work.to.parameters) <= number) work.to.parameters.resize(static_cast<std::size_t>(number) + 1, -1);
        at(work.to.parameters, number) = work.values.back();
      }
    }
    require(
        !has_borders_ || from.root_type().is_token() || context.size() >= work.manual.of(from.root).size(),
        "the result %{} of %{} is inside a manual region; leave the region first, with SPMDShardToFullShape (in C++: "
        "return it from the function of shard_map)",
        from[from.root].name, from.name);
    work.to.root = at(work.values, from.root);
    return std::move(work.to);
  }

  // ---- rewriting ----------------------------------------------------------------------------------------------------

  Id append(Work& work, Instruction instruction) {
    work.to.instructions.push_back(std::move(instruction));
    return work.to.size() - 1;
  }

  Id rewritten(Work& work, Id id) {
    const Instruction& old = work.from[id];
    const ManualBorder border = manual_border(old);
    try {
      if (border == ManualBorder::kEnter) return entered(work, id);
      if (border == ManualBorder::kLeave) return left(work, id);
    } catch (InternalError&) {
      throw;
    } catch (Error& error) {
      if (!old.source().empty()) error.note_place("  at   " + old.source());
      throw error.prefix(fmt::format("%{}: ", old.name));
    }
    for (const Axes& axes : work.manual.others(id)) {
      Instruction other = copied(work, id, axes);
      other.name = fresh_name(work, old.name);
      work.values_within[{id, axes}] = append(work, std::move(other));
    }
    return append(work, copied(work, id, work.manual.of(id)));
  }

  Instruction copied(Work& work, Id id, const Axes& axes) {
    const Instruction& old = work.from[id];
    Instruction copy = old;
    for (Id& operand : copy.operands) operand = value_within(work, operand, axes);
    for (Id& before : copy.control_predecessors) before = at(work.values, before);
    for (ComputationId& called : copy.called)
      called = lowered(called, calls_partitioned(old) ? axes : Axes{}, !calls_partitioned(old));
    if (!axes.empty()) copy.sharding = inside(old, axes);
    return copy;
  }

  // `old` for readers under `axes`. A global value that a region reads without a border is replicated over the region's
  // devices.
  Id value_within(Work& work, Id old, const Axes& axes) {
    if (work.manual.of(old) == axes) return at(work.values, old);
    if (const auto made = work.values_within.find({old, axes}); made != work.values_within.end()) return made->second;
    const Instruction& global = work.from[old];
    const Axes& outer = work.manual.of(old);
    if (!global.type.is_array() || work.manual.is_function() || !without(outer, axes).empty())
      return at(work.values, old);
    Instruction border;
    border.op = &rows::kCustomCall;
    border.type = global.type;
    border.operands = {at(work.values, old)};
    border.attributes = make_attributes(CustomCallAttributes{"SPMDFullToShardShape", false});
    border.sharding = make_sharding(inside(nullptr, global.type, axes));
    border.notes = with_placement(global.notes, Sharding::replicated(mesh(), global.type.ndim()));
    border.name = fresh_name(work, fmt::format("{}.local", global.name));
    return work.values_within[{old, axes}] = append(work, std::move(border));
  }

  // The sharding of a value in a region: the annotation, or an open sharding with the manual axes.
  ShardingRef inside(const Instruction& old, const Axes& axes) const {
    Shardings out;
    const auto leaves = old.type.leaves();
    const std::string name = manual_border(old) == ManualBorder::kNone ? fmt::format("%{}: ", old.name) : "";
    for (int i = 0; i < isize(leaves); ++i) {
      const Sharding* given = old.sharding ? &at(*old.sharding, old.sharding->size() == 1 ? 0 : i) : nullptr;
      out.push_back(inside(given, at(leaves, i), axes, name));
    }
    return make_shardings(std::move(out));
  }
  [[nodiscard]] const Mesh& mesh() const { return regions_.mesh(); }
  // `name`: precedes the text of errors. Those of borders are named by rewritten().
  Sharding inside(const Sharding* given, const Type& type, const Axes& axes, std::string_view name = {}) const {
    const int ndim = type.is_array() ? type.ndim() : 0;
    Sharding out = Sharding::replicated(mesh(), ndim);
    if (given != nullptr && given->is_tiled() && given->ndim() == ndim)
      out = regions_.on_mesh(*given);
    else
      for (auto& dim : out.dims) dim.open = true;
    out.manual.clear();
    for (const auto& axis : axes)
      require(!overlaps_any(out.used_axes(), axis), "{}sharding {} uses axis {}, which is manual in this region", name,
              out.str(), mesh().axis_text(axis));
    out.manual = axes;
    return out;
  }

  std::string fresh_name(Work& work, const std::string& base) {
    std::string name = base;
    for (int k = 1; !work.taken.insert(name).second; ++k) name = fmt::format("{}.{}", base, k);
    return name;
  }

  // Of the axes of each dim, those that the region handles. They must come first.
  Sharding placement(const Sharding& sharding, const Axes& axes) const {
    Sharding out = Sharding::replicated(mesh(), sharding.ndim());
    for (int d = 0; d < sharding.ndim(); ++d) {
      bool free = false;
      for (const auto& axis : at(sharding.dims, d).axes) {
        const bool manual = overlaps_any(axes, axis);
        require(!manual || !free, "{}: manual axes must come first in dim {}", sharding.str(), d);
        free = free || !manual;
        if (manual) at(out.dims, d).axes.push_back(axis);
      }
    }
    return out;
  }
  static NotesRef plain_notes(NotesRef notes) {
    for (const auto key : {kSdyManualAxes, kSdyInShardings, kSdyOutShardings})
      notes = with_frontend_attribute(notes, key, std::nullopt);
    return notes;
  }
  static NotesRef with_placement(const NotesRef& notes, const Sharding& placed) {
    return with_frontend_attribute(plain_notes(notes), kBorderPlacementAttribute, sdy_sharding_text(placed));
  }

  Instruction custom_call(const Instruction& like, std::string target, const Type& type, Id operand) const {
    Instruction out;
    out.op = like.op;
    out.type = type;
    out.operands = {operand};
    out.attributes = make_attributes(CustomCallAttributes{std::move(target), false});
    out.notes = like.notes;
    return out;
  }

  static void check_sizes(const Type& global, const Sharding& placed, const Type& local) {
    require(shard_type(global, placed) == local, "{} sharded as {} is {} per device, but the region declares {}",
            global, placed.str(), shard_type(global, placed), local);
  }

  // The shardings of the global side, one per array.
  std::vector<Sharding> global_shardings(const Work& work, Id id, std::string_view key) const {
    const Instruction& old = work.from[id];
    const auto* text = old.frontend_attribute(key);
    auto out = text != nullptr ? parse_sdy_shardings(*text, out_.meshes) : std::vector{global_sharding(work, id)};
    const auto results = old.type.leaves().size();
    require(out.size() == old.operands.size() && results == old.operands.size(),
            "the border of a manual region has {} operands, {} shardings and {} results; these numbers must be equal",
            old.operands.size(), out.size(), results);
    return out;
  }
  Sharding global_sharding(const Work& work, Id id) const {
    const Instruction& old = work.from[id];
    const bool leaves = manual_border(old) == ManualBorder::kLeave;
    const Instruction& global = leaves ? old : work.from[old.operands[0]];
    const bool is_given = global.sharding && global.sharding->front().kind != Sharding::Kind::kUnknown;
    if (!is_given && !leaves) return implied(global, old, work.manual.of_border(id));
    require(is_given, "%{} needs a sharding that describes how the shards of %{} form it", global.name,
            work.from[old.operands[0]].name);
    Sharding out = regions_.on_mesh(global.sharding->front());
    require(!global.type.is_array() || out.ndim() == global.type.ndim(),
            "%{} has sharding={{{}}}; at the border of a manual region it must be replicated or tiled", global.name,
            out.str());
    return out;
  }

  // The placement of `global` that gives shards of the border's sizes. Throws an Error if there is more than one.
  Sharding implied(const Instruction& global, const Instruction& border, const Axes& own) const {
    Sharding out = Sharding::replicated(mesh(), global.type.ndim());
    bool is_unique = out_.meshes.size() == 1 && border.type.is_array() && border.type.ndim() == global.type.ndim();
    Axes used;
    for (int d = 0; is_unique && d < global.type.ndim(); ++d) {
      if (global.type.dim(d) == border.type.dim(d)) continue;
      const auto gives_local_size = [&](const AxisRef& axis) {
        return (global.type.dim(d) + axis.size - 1) / axis.size == border.type.dim(d);
      };
      is_unique = std::count_if(own.begin(), own.end(), gives_local_size) == 1;
      if (!is_unique) break;
      const AxisRef axis = *std::find_if(own.begin(), own.end(), gives_local_size);
      is_unique = !overlaps_any(used, axis);
      used.push_back(axis);
      at(out.dims, d).axes = {axis};
    }
    require(is_unique,
            "enters a region as {} of {} %{}, which has no sharding, and the sizes do not determine one; annotate %{}",
            border.type, global.type, global.name, global.name);
    return out;
  }

  Id entered(Work& work, Id id) {
    const Instruction& old = work.from[id];
    const Axes own = work.manual.of_border(id);
    const auto shardings = global_shardings(work, id, kSdyInShardings);
    const auto types = old.type.leaves();
    std::vector<Id> made;
    for (int k = 0; k < isize(old.operands); ++k) {
      const Instruction& operand = work.from[at(old.operands, k)];
      const Sharding placed = placement(at(shardings, k), own);
      check_sizes(operand.type, placed, at(types, k));
      const Axes& outer = work.manual.outside_of(at(old.operands, k));
      Instruction mark = custom_call(old, "Sharding", operand.type, value_within(work, at(old.operands, k), outer));
      mark.sharding = make_sharding(at(shardings, k));
      if (!outer.empty()) mark.sharding = make_sharding(inside(&at(shardings, k), operand.type, outer));
      mark.name = fresh_name(work, fmt::format("{}.in", old.name));
      mark.notes = plain_notes(old.notes);
      const Id marked = append(work, std::move(mark));
      Instruction border = custom_call(old, "SPMDFullToShardShape", at(types, k), marked);
      const Sharding* own_sharding = old.sharding && old.sharding->size() == 1 ? &old.sharding->front() : nullptr;
      border.sharding = make_sharding(inside(own_sharding, at(types, k), work.manual.of(id)));
      border.notes = with_placement(old.notes, placed);
      border.name = old.type.is_tuple() ? fresh_name(work, fmt::format("{}.local", old.name)) : old.name;
      made.push_back(append(work, std::move(border)));
    }
    return gathered(work, old, made, inside(old, work.manual.of(id)));
  }

  Id left(Work& work, Id id) {
    const Instruction& old = work.from[id];
    const Axes own = work.manual.of_border(id);
    const auto shardings = global_shardings(work, id, kSdyOutShardings);
    const auto types = old.type.leaves();
    const Axes& outer = work.manual.of(id);
    const Axes inner = united(outer, own);
    std::vector<Id> made;
    for (int k = 0; k < isize(old.operands); ++k) {
      const Sharding placed = placement(at(shardings, k), own);
      check_sizes(at(types, k), placed, work.from[at(old.operands, k)].type);
      const Id operand = value_within(work, at(old.operands, k), inner);
      Instruction border = custom_call(old, "SPMDShardToFullShape", at(types, k), operand);
      border.sharding =
          make_sharding(outer.empty() ? at(shardings, k) : inside(&at(shardings, k), at(types, k), outer));
      border.notes = with_placement(old.notes, placed);
      border.name = old.type.is_tuple() ? fresh_name(work, fmt::format("{}.global", old.name)) : old.name;
      made.push_back(append(work, std::move(border)));
    }
    return gathered(work, old, made, outer.empty() ? nullptr : inside(old, outer));
  }

  Id gathered(Work& work, const Instruction& old, const std::vector<Id>& made, ShardingRef sharding) {
    if (!old.type.is_tuple()) return made.front();
    Instruction tuple;
    tuple.op = &rows::kTuple;
    tuple.type = old.type;
    tuple.operands = made;
    tuple.name = old.name;
    tuple.sharding = std::move(sharding);
    return append(work, std::move(tuple));
  }

  const Program& program_;
  Program out_;
  std::vector<bool> with_effects_;
  RegionMesh regions_;
  bool has_borders_;  // else the complete program is a region, and arguments and results are per-device values
  std::map<std::pair<ComputationId, Axes>, ComputationId> made_;
  std::set<std::string> names_;
};

template <class F>
bool any_instruction(const Program& program, const F& holds) {
  return std::any_of(program.computations.begin(), program.computations.end(), [&](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(), holds);
  });
}

// Whether the program contains borders without a placement.
bool has_raw_borders(const Program& program) {
  return any_instruction(program, [&](const Instruction& instruction) {
    return manual_border(instruction) != ManualBorder::kNone && !border_placement(program, instruction);
  });
}

// If there are no borders and no communication, there is no region: annotated values are replicated over the axes.
Program without_manual_annotations(const Program& program) {
  Program out = program;
  const Mesh mesh = RegionMesh(program).mesh();
  for (auto& computation : out.computations) {
    const auto& all = computation->instructions;
    if (std::none_of(all.begin(), all.end(), is_annotated_manual)) continue;
    Computation changed = *computation;
    for (auto& instruction : changed.instructions) {
      if (!is_annotated_manual(instruction)) continue;
      Shardings leaves = *instruction.sharding;
      const auto types = instruction.type.leaves();
      for (int i = 0; i < isize(leaves); ++i) {
        const Type& type = at(types, i);
        if (at(leaves, i).kind == Sharding::Kind::kManual)
          at(leaves, i) = Sharding::replicated(mesh, type.is_array() ? type.ndim() : 0);
        at(leaves, i).manual.clear();
      }
      instruction.sharding = make_shardings(std::move(leaves));
    }
    computation = std::make_shared<const Computation>(std::move(changed));
  }
  return out;
}

}  // namespace

Program normalize_manual(const Program& program) {
  if (has_raw_borders(program)) return Normalizer(program).run();
  const bool communicates = any_instruction(program, [](const Instruction& instruction) {
    return manual_border(instruction) != ManualBorder::kNone || instruction.op->role == Role::kCollective ||
           instruction.op->role == Role::kPartitionId;
  });
  if (!communicates) return without_manual_annotations(program);
  return has_manual_regions(program) || !any_instruction(program, is_annotated_manual) ? program
                                                                                       : Normalizer(program).run();
}

// Values outside of all regions that are annotated as manual stay so, because XLA reads these annotations.
Program in_gspmd_form(const Program& program) {
  Program out = has_raw_borders(program) ? Normalizer(program).run() : program;
  for (auto& computation : out.computations) {
    Computation changed = *computation;
    for (auto& instruction : changed.instructions)
      if (is_sharding_mark(instruction))
        instruction.attributes = make_attributes(CustomCallAttributes{"Sharding", false});
    computation = std::make_shared<const Computation>(std::move(changed));
  }
  return out;
}

}  // namespace tessera

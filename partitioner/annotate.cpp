// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/partitioner/partition.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

std::vector<std::string> value_names(const Computation& computation, bool parameters_only) {
  std::vector<std::string> names;
  for (const auto& instruction : computation.instructions)
    if (!parameters_only || instruction.op->role == Role::kParameter) names.push_back(instruction.name);
  return names;
}

// `computation/name`, of those that have such a value.
std::vector<std::string> computations_with(const Program& program, std::string_view name) {
  std::vector<std::string> out;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (instruction.name == name) out.push_back(fmt::format("{}/{}", computation->name, name));
  return out;
}

std::pair<ComputationId, Id> find_value(const Program& program, std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  ComputationId computation = program.entry;
  if (const auto slash = name.find('/'); slash != std::string_view::npos) {
    std::vector<std::string> known;
    computation = -1;
    for (ComputationId c = 0; c < isize(program.computations); ++c) {
      known.push_back(program[c].name);
      if (program[c].name == name.substr(0, slash)) computation = c;
    }
    require(computation >= 0, "no computation is named \"{}\"{}", name.substr(0, slash),
            [&] { return suggest_name(name.substr(0, slash), known); });
    name.remove_prefix(slash + 1);
    if (name.starts_with('%')) name.remove_prefix(1);
  }
  const auto& instructions = program[computation].instructions;
  const auto named = [&](const Instruction& instruction) { return instruction.name == name; };
  auto found = std::find_if(instructions.begin(), instructions.end(), [&](const Instruction& instruction) {
    return named(instruction) && instruction.op->role == Role::kParameter;
  });
  if (found == instructions.end()) found = std::find_if(instructions.begin(), instructions.end(), named);
  const auto known = value_names(program[computation], instructions.size() > 40);
  require(found != instructions.end(), "no value of {} is named \"{}\"{}", program[computation].name, name, [&] {
    const auto elsewhere = computations_with(program, name);
    return elsewhere.empty() ? suggest_name(name, known) : fmt::format("; write {}", join(elsewhere, " or "));
  });
  return {computation, static_cast<Id>(found - instructions.begin())};
}

// Two annotations of one value must say the same.
void require_same(const Instruction& instruction, const Sharding& before, const Sharding& now) {
  const bool says_nothing =
      before.kind == Sharding::Kind::kUnknown ||
      (before.is_tiled() && std::all_of(before.dims.begin(), before.dims.end(),
                                        [](const DimSharding& dim) { return dim.open && dim.axes.empty(); }));
  if (says_nothing) return;
  const bool is_same = before.mesh.device_count() == now.mesh.device_count() && before.ndim() == now.ndim() &&
                       same_placement(instruction.type, before, now);
  require(is_same, "%{} is already sharded otherwise: {}, and now {}; annotate it once", instruction.name, before.str(),
          now.str());
}

}  // namespace

Program annotate(const Program& program, const Mesh& mesh, const std::string& name, const std::string& spec) {
  Program out = program;
  const bool known = std::find(out.meshes.begin(), out.meshes.end(), mesh) != out.meshes.end();
  if (!known) out.meshes.insert(out.meshes.begin(), mesh);
  out.num_partitions = mesh.device_count();
  const auto mark = name.find('@');  // `w@p1`: the priority of dims that have none of their own
  const auto [computation, id] = find_value(program, std::string_view(name).substr(0, mark));
  auto changed = std::make_shared<Computation>(program[computation]);
  auto& instruction = at(changed->instructions, id);
  require(instruction.type.is_array(), "%{} is {}; only arrays can be annotated", instruction.name, instruction.type);
  try {
    auto sharding = Sharding::from_spec(mesh, PartitionSpec::parse(spec), instruction.type.ndim());
    if (mark != std::string::npos) {
      const int priority = parse_priority(std::string_view(name).substr(mark + 1));
      for (auto& dim : sharding.dims) dim.priority = dim.priority.value_or(priority);
    }
    if (instruction.sharding) require_same(instruction, instruction.sharding->front(), sharding);
    instruction.sharding = make_sharding(std::move(sharding));
  } catch (Error& error) {
    throw error.note(fmt::format("  %{}: {}", instruction.name, instruction.type.str()));
  }
  at(out.computations, computation) = std::move(changed);
  return out;
}

}  // namespace tessera

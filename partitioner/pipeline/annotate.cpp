// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

std::vector<std::string> value_names(const Computation& computation, bool parameters_only) {
  std::vector<std::string> names;
  for (const auto& instruction : computation.instructions)
    if (!parameters_only || instruction.op->role == Role::kParameter) names.push_back(instruction.name);
  return names;
}

// The qualified names `computation/name` of all values called `name`.
std::vector<std::string> computations_with(const Program& program, std::string_view name) {
  std::vector<std::string> out;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (instruction.name == name) out.push_back(fmt::format("{}/{}", computation->name, name));
  return out;
}

// The parameter that JAX names `x.1` for `x`, if it is unambiguous.
Id parameter_of_stem(const Computation& computation, std::string_view stem) {
  Id found = -1;
  for (const Id id : computation.parameters) {
    const std::string& name = computation[id].name;
    const auto number = name.find_last_not_of("0123456789");
    const bool is_numbered = number != std::string::npos && number + 1 < name.size() && name[number] == '.';
    if (!is_numbered || std::string_view(name).substr(0, number) != stem) continue;
    if (found >= 0) return -1;
    found = id;
  }
  return found;
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
  if (found == instructions.end())
    if (const Id parameter = parameter_of_stem(program[computation], name); parameter >= 0)
      return {computation, parameter};
  const auto known = value_names(program[computation], instructions.size() > 40);
  require(found != instructions.end(), "no value of {} is named \"{}\"{}", program[computation].name, name, [&] {
    const auto elsewhere = computations_with(program, name);
    return elsewhere.empty() ? suggest_name(name, known) : fmt::format("; write {}", fmt::join(elsewhere, " or "));
  });
  return {computation, static_cast<Id>(found - instructions.begin())};
}

// Whether the sharding specifies nothing.
bool specifies_nothing(const Sharding& sharding) {
  return sharding.kind == Sharding::Kind::kUnknown ||
         (sharding.is_tiled() && std::all_of(sharding.dims.begin(), sharding.dims.end(),
                                             [](const DimSharding& dim) { return dim.open && dim.axes.empty(); }));
}

bool specify_the_same(const Type& type, const Sharding& before, const Sharding& now) {
  return before.mesh.device_count() == now.mesh.device_count() && before.ndim() == now.ndim() &&
         same_placement(type, before, now);
}

// The leaves of `of` that are this array. The first leaf of `of` has number `first` in the result.
std::vector<int> leaves_that_are(const Computation& computation, Id array, Id of, int first) {
  if (of == array) return {first};
  const Instruction& tuple = computation[of];
  std::vector<int> out;
  if (tuple.op->role != Role::kTuple) return out;
  for (int i = 0; i < isize(tuple.operands); ++i) {
    const auto found = leaves_that_are(computation, array, at(tuple.operands, i), first + tuple.type.leaf_offset(i));
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

// `c=?,?`: allows any sharding for an entry result that is this value.
void leave_result_open(Program& program, Id id) {
  const Computation& entry = program.entry_computation();
  const Instruction& root = entry[entry.root];
  const std::vector<int> returned = leaves_that_are(entry, id, entry.root, 0);
  if (returned.empty()) return;
  const auto leaves = static_cast<std::size_t>(root.type.leaf_count());
  auto& allowed = program.propagate_to_output;
  if (allowed.size() != leaves) allowed.assign(leaves, !allowed.empty() && allowed.front());
  for (const int leaf : returned) allowed[static_cast<std::size_t>(leaf)] = true;
}

// Requires two annotations of one value to be equal.
void require_same(const Instruction& instruction, const Sharding& before, const Sharding& now) {
  require(specifies_nothing(before) || specify_the_same(instruction.type, before, now),
          "%{} is annotated twice, with {} and {}; keep one", instruction.name, before.str(), now.str());
}

std::pair<ComputationId, Id> annotated_value(const Program& program, std::string_view name) {
  return find_value(program, name.substr(0, name.find('@')));
}

}  // namespace

const Instruction& annotatable(const Program& program, const std::string& name) {
  const auto [computation, id] = annotated_value(program, name);
  return program[computation][id];
}

Program annotate(const Program& program, const Mesh& mesh, const std::string& name, const std::string& spec) {
  Program out = program;
  const bool known = std::find(out.meshes.begin(), out.meshes.end(), mesh) != out.meshes.end();
  if (!known) out.meshes.insert(out.meshes.begin(), mesh);
  out.num_partitions = mesh.device_count();
  const auto mark = name.find('@');  // `w@p1`: the priority of dims without their own
  const auto [computation, id] = annotated_value(program, name);
  auto changed = std::make_shared<Computation>(program[computation]);
  auto& instruction = at(changed->instructions, id);
  require(instruction.type.is_array(), "%{} is {}; only arrays can be annotated", instruction.name, instruction.type);
  try {
    auto sharding = Sharding::from_spec(mesh, PartitionSpec::parse(spec), instruction.type.ndim());
    if (mark != std::string::npos) {
      const int priority = parse_priority(std::string_view(name).substr(mark + 1));
      for (auto& dim : sharding.dims) dim.priority = dim.priority.value_or(priority);
    }
    if (specifies_nothing(sharding) && computation == out.entry) leave_result_open(out, id);
    if (instruction.sharding) require_same(instruction, instruction.sharding->front(), sharding);
    instruction.sharding = make_sharding(std::move(sharding));
  } catch (Error& error) {
    throw error.note(fmt::format("  %{}: {}", instruction.name, instruction.type.str()));
  }
  at(out.computations, computation) = std::move(changed);
  return out;
}

Program without_annotation(const Program& program, const std::string& name) {
  const auto [computation, id] = annotated_value(program, name);
  const Instruction& instruction = program[computation][id];
  if (!instruction.sharding || !instruction.type.is_array()) return program;
  const Sharding& given = instruction.sharding->front();
  // Such annotations define the region itself.
  if (given.kind == Sharding::Kind::kManual || !given.manual.empty()) return program;
  Program out = program;
  auto changed = std::make_shared<Computation>(program[computation]);
  at(changed->instructions, id).sharding = nullptr;
  at(out.computations, computation) = std::move(changed);
  return out;
}

std::vector<std::string> replaced_annotations(const Program& program, const Program& annotated) {
  std::vector<std::string> out;
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    for (Id id = 0; id < program[c].size(); ++id) {
      const Instruction& instruction = program[c][id];
      const ShardingRef& now = annotated[c][id].sharding;
      if (now == instruction.sharding || !instruction.sharding || !now || !instruction.type.is_array()) continue;
      const Sharding& before = instruction.sharding->front();
      if (specifies_nothing(before) || specify_the_same(instruction.type, before, now->front())) continue;
      const std::string prefix = c == program.entry ? "" : program[c].name + "/";
      out.push_back(
          fmt::format("%{}{} has {} instead of {}", prefix, instruction.name, now->front().str(), before.str()));
    }
  return out;
}

}  // namespace tessera

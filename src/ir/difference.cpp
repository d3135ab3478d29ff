// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "text/text_reader.h"

namespace tessera {
namespace {

// Sorts attributes, because the text format does not preserve the order of all of them.
std::vector<std::pair<std::string, std::string>> by_key(std::vector<std::pair<std::string, std::string>> attributes) {
  std::sort(attributes.begin(), attributes.end());
  return attributes;
}

const Notes& notes_of(const Instruction& instruction) {
  static const Notes kNone;
  return instruction.notes ? *instruction.notes : kNone;
}

bool same_layouts(const Type& a, const Type& b) { return a.str(true) == b.str(true); }

// The kind of difference between two instructions, in one or two words; "" if there is none.
std::string_view instruction_difference(const Instruction& a, const Instruction& b) {
  if (a.name != b.name) return "name";
  if (a.op != b.op) return "op";
  if (!(a.type == b.type)) return "type";
  if (!same_layouts(a.type, b.type)) return "layout";
  if (a.operands != b.operands) return "operands";
  if (a.called != b.called) return "called computations";
  if (a.control_predecessors != b.control_predecessors) return "control predecessors";
  if (!equal(a.attributes, b.attributes)) return "attributes";
  if ((a.sharding == nullptr) != (b.sharding == nullptr)) return "sharding";
  if (a.sharding && a.sharding != b.sharding && *a.sharding != *b.sharding) return "sharding";
  if (a.notes == b.notes) return "";
  const Notes& x = notes_of(a);
  const Notes& y = notes_of(b);
  if (by_key(carried_attributes(a)) != by_key(carried_attributes(b))) return "frontend attributes";
  if (in_print_order(x.other) != in_print_order(y.other)) return "other attributes";
  const bool same = x.source_file == y.source_file && x.source_line == y.source_line && x.op_name == y.op_name &&
                    x.op_type == y.op_type && x.metadata_rest == y.metadata_rest;
  return same ? "" : "metadata";
}

std::string computation_difference(const Program& a, const Program& b, ComputationId id) {
  const Computation& x = a[id];
  const Computation& y = b[id];
  if (x.name != y.name) return fmt::format("computation {} is named %{}, and %{}", id, x.name, y.name);
  for (Id i = 0; i < std::min(x.size(), y.size()); ++i) {
    const auto what = instruction_difference(x[i], y[i]);
    if (what.empty()) continue;
    std::string out = fmt::format("%{}: instruction {} differs in its {}:\n  {}\n  {}", x.name, i, what,
                                  print_instruction(a, x, i), print_instruction(b, y, i));
    if (what == "sharding" && x[i].sharding && y[i].sharding)
      for (std::size_t k = 0; k < std::min(x[i].sharding->size(), y[i].sharding->size()); ++k)
        out += fmt::format("\n  {} on {}, {} on {}", (*x[i].sharding)[k].str(), (*x[i].sharding)[k].mesh.str(),
                           (*y[i].sharding)[k].str(), (*y[i].sharding)[k].mesh.str());
    return out;
  }
  if (x.size() != y.size()) return fmt::format("%{} has {} instructions, and {}", x.name, x.size(), y.size());
  if (x.execution_thread != y.execution_thread)
    return fmt::format("%{} runs on thread \"{}\", and \"{}\"", x.name, x.execution_thread, y.execution_thread);
  if (x.root != y.root) return fmt::format("%{}: the roots are %{} and %{}", x.name, x[x.root].name, y[y.root].name);
  if (x.parameters != y.parameters) return fmt::format("%{}: the parameters differ in order", x.name);
  return {};
}

// The meshes that a text contains: the program's and those that only shardings name.
std::vector<Mesh> all_meshes(const Program& program) {
  std::vector<Mesh> out = program.meshes;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions) {
      if (!instruction.sharding) continue;
      for (const auto& leaf : *instruction.sharding)
        if (std::find(out.begin(), out.end(), leaf.mesh) == out.end()) out.push_back(leaf.mesh);
    }
  return out;
}

std::string meshes_difference(const Program& a, const Program& b) {
  if (a.meshes == b.meshes) return {};
  const auto x = all_meshes(a);
  const auto y = all_meshes(b);
  if (x == y) return {};
  const auto text = [](const std::vector<Mesh>& meshes) {
    std::vector<std::string> parts;
    for (const auto& mesh : meshes) parts.push_back(mesh.str());
    return fmt::format("{}", fmt::join(parts, "; "));
  };
  return fmt::format("the meshes are {}, and {}", text(x), text(y));
}

bool by_print_order(const TextAttribute& a, const TextAttribute& b) {
  return header_order(a.name) < header_order(b.name);
}

std::string header_difference(const Program& a, const Program& b) {
  if (a.name != b.name) return fmt::format("the modules are named {}, and {}", a.name, b.name);
  if (a.num_partitions != b.num_partitions)
    return fmt::format("num_partitions is {}, and {}", a.num_partitions, b.num_partitions);
  if (a.replica_count != b.replica_count)
    return fmt::format("replica_count is {}, and {}", a.replica_count, b.replica_count);
  if (a.aliases != b.aliases) return "input_output_alias differs";
  if (a.partitioned != b.partitioned) return "one program is marked as partitioned, the other not";
  if (a.lowered != b.lowered) return "one program is marked as lowered, the other not";
  if (a.propagate_to_parameters != b.propagate_to_parameters)
    return "allow_spmd_sharding_propagation_to_parameters differs";
  if (a.propagate_to_output != b.propagate_to_output) return "allow_spmd_sharding_propagation_to_output differs";
  if (a.frontend_attributes != b.frontend_attributes) return "the modules' frontend attributes differ";
  auto x = a.other;
  auto y = b.other;
  std::stable_sort(x.begin(), x.end(), by_print_order);
  std::stable_sort(y.begin(), y.end(), by_print_order);
  if (x != y) return "other header attributes differ";
  return {};
}

}  // namespace

std::string difference(const Program& a, const Program& b) {
  if (auto text = header_difference(a, b); !text.empty()) return text;
  for (ComputationId id = 0; id < std::min(isize(a.computations), isize(b.computations)); ++id)
    if (auto text = computation_difference(a, b, id); !text.empty()) return text;
  if (a.computations.size() != b.computations.size())
    return fmt::format("{} computations, and {}", a.computations.size(), b.computations.size());
  if (a.entry != b.entry) return fmt::format("the entry computations are number {}, and {}", a.entry, b.entry);
  return meshes_difference(a, b);
}

}  // namespace tessera

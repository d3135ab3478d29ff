// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "input.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ir/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/partitioner/reshard_insertion/partial_values.h"
#include "tessera/passes/passes.h"
#include "tessera/sharding/visualize.h"

namespace tessera::command {
namespace {

// Returns the sharding mark of this name in the input program. If its sharding is open or the mark does not exist, sets
// `name` to the value that it marks.
const Instruction* find_mark(const Program& program, std::string_view computation_name, std::string& name) {
  for (const auto& computation : program.computations) {
    if (computation->name != computation_name) continue;
    const auto& all = computation->instructions;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& other) { return other.name == name; });
    if (found == all.end()) return nullptr;
    const Instruction* value = &*found;
    while (is_sharding_mark(*value) && value->sharding) {
      const Sharding& given = value->sharding->front();
      if (given.is_tiled() && given == given.closed()) return value;
      value = &(*computation)[value->operands[0]];
    }
    name = value->name;
    return nullptr;
  }
  return nullptr;
}

// Finds NAME, %NAME or COMPUTATION/NAME in a program whose values all have shardings. `given` is the input program.
const Instruction& find_value(const Program& program, const Program& given, std::string_view name) {
  const auto slash = name.find('/');
  const std::string_view computation_name =
      slash == std::string_view::npos ? std::string_view(program.entry_computation().name) : name.substr(0, slash);
  std::string_view value = slash == std::string_view::npos ? name : name.substr(slash + 1);
  if (value.starts_with('%')) value.remove_prefix(1);
  std::vector<std::string> known;
  std::string marked(value);
  const Instruction* mark = find_mark(given, computation_name, marked);
  for (const auto& computation : program.computations) {
    if (computation->name != computation_name) continue;
    for (const auto& instruction : computation->instructions) {
      if (instruction.name == value) return instruction;
      known.push_back(instruction.name);
    }
    if (mark != nullptr) return *mark;
    for (const auto& instruction : computation->instructions)
      if (instruction.name == marked) return instruction;
  }
  fail("no value of {} is named \"{}\"{}", computation_name, value, suggest_name(value, known));
}

// Returns a note about what the picture does not show: devices of a tile that do not hold equal values.
std::string note_below(const Program& given, const Instruction& value, const Sharding& sharding) {
  if (sharding.is_partial()) return unreduced_text(sharding) + ": every device of a group holds a partial value\n";
  if (!sharding.manual.empty()) return "in a manual region: devices of a tile may hold different values\n";
  for (const auto& computation : given.computations)
    for (const auto& instruction : computation->instructions)
      if (instruction.name == value.name && instruction.sharding &&
          instruction.sharding->front().kind == Sharding::Kind::kManual)
        return "annotated {manual}, but this program has no manual region; drawn as fully replicated\n";
  return "";
}

// Draws the shardings of values, both annotated and propagated.
std::string pictures(const Program& program, const Arguments& arguments) {
  require(!program.partitioned,
          "{} is a per-device program, but drawings show complete values on all devices; give the global program",
          program.name);
  const Program global = partition(program).global;
  const bool svg = arguments.has("svg");
  std::string out;
  for (const auto& name : arguments.values("sharding")) {
    const Instruction& value = find_value(global, program, name);
    require(value.type.is_array(), "%{} is {}; only arrays can be drawn", value.name, value.type);
    const Sharding sharding =
        value.sharding ? value.sharding->front().closed() : Sharding::replicated(Mesh(), value.type.ndim());
    if (svg) return sharding_svg(value.type, sharding);
    out += fmt::format("%{}: {} {}", value.name, value.type.str(), sharding.str());
    if (const auto* why = value.frontend_attribute("tessera.why")) out += ", " + *why;
    out += "\n" + visualize_sharding(value.type, sharding);
    out += note_below(program, value, sharding);
  }
  return out;
}

int run(const Arguments& arguments) {
  const std::size_t drawn = arguments.values("sharding").size();
  if (arguments.has("svg") && drawn != 1)
    throw UsageError(drawn == 0 ? "--svg draws the value of --sharding NAME"
                                : "--svg draws one value; give --sharding once");
  const Program program = read_program(arguments);
  verify(program);
  if (drawn > 0) {
    write_text(arguments.value_or("svg", arguments.value_or("o", "-")), pictures(program, arguments));
    return kGood;
  }
  const bool for_xla = arguments.has("for-xla");
  write_text(arguments.value_or("o", "-"),
             print_program(for_xla ? in_ops_of_hlo(in_gspmd_form(program)) : program, {.for_xla = for_xla}));
  return kGood;
}

std::vector<Option> options() {
  auto out = sharding_options();
  out.push_back({"o", "OUT.hlo", "the output; default: standard output", {}, true});
  out.push_back(repeated({"sharding", "NAME",
                          "draw the sharding of a value, given or propagated, instead of "
                          "printing the program; may be repeated"}));
  out.push_back({"svg", "FILE", "write the drawing of one --sharding as SVG; - is standard output", {}, true});
  out.push_back({"for-xla", "", "omit the attributes that XLA does not accept, so that XLA can read the output"});
  return out;
}

}  // namespace

const Verb kPrint = {"print", "prints a program, or draws the shardings of its values",
                     "Reading the output again gives the same program.", options(), run};

}  // namespace tessera::command

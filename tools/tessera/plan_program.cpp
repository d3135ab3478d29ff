// SPDX-License-Identifier: Apache-2.0
// `tessera plan step.hlo --devices 8`: the mesh on which a program whose shardings are chosen automatically is fastest.
#include "plan_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "input.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/sharding/accelerator.h"

namespace tessera::command {
namespace {

constexpr std::string_view kAxisNames = "xyzw";
constexpr std::int64_t kShownMeshes = 10;
constexpr std::int64_t kMostDevices = 65'536;

struct MeshPlan {
  Mesh mesh;
  Cost cost;
  double communication = 0;  // seconds
  std::int64_t received = 0;
  std::vector<std::pair<std::string, std::string>> parameters;  // name and type, spec
};

std::string text_of(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes()) out += fmt::format("{}{}={}", out.empty() ? "" : ",", axis.name, axis.size);
  return out;
}

// The meshes of `devices` devices with at most `most` axes in order of size: the axes of a mesh have equal links.
void add_meshes(std::int64_t devices, std::int64_t least, std::size_t most, std::vector<std::int64_t> sizes,
                std::vector<Mesh>& out) {
  if (devices >= least && sizes.size() < most) {
    std::vector<std::int64_t> complete = sizes;
    complete.push_back(devices);
    std::vector<MeshAxis> axes;
    for (std::size_t i = 0; i < complete.size(); ++i) axes.push_back({std::string(1, kAxisNames[i]), complete[i]});
    out.emplace_back(std::move(axes));
  }
  for (std::int64_t size = least; size * size <= devices; ++size) {
    if (devices % size != 0) continue;
    sizes.push_back(size);
    add_meshes(devices / size, size, most, sizes, out);
    sizes.pop_back();
  }
}

MeshPlan plan_of(const Program& program, const Mesh& mesh, const PartitionOptions& options) {
  Program on_mesh = program;
  on_mesh.num_partitions = mesh.device_count();
  std::erase(on_mesh.meshes, mesh);
  on_mesh.meshes.insert(on_mesh.meshes.begin(), mesh);
  const Partitioned parts = partition(on_mesh, options);
  MeshPlan out{mesh, {}, 0, 0, {}};
  out.cost = {modelled_seconds(parts.program, options.machine), execution_stats(parts.program).peak_bytes_per_device};
  for (const CollectiveNote& note : parts.notes) {
    constexpr double kMilli = 1e-3;
    out.communication += kMilli * note.milliseconds;
    out.received += note.bytes;
  }
  const Computation& entry = parts.global.entry_computation();
  for (const Id id : entry.parameters)
    if (entry[id].type.is_array() && entry[id].sharding)
      out.parameters.emplace_back(fmt::format("%{} {}", entry[id].name, entry[id].type.str()),
                                  entry[id].sharding->front().closed().str());
  return out;
}

std::string table_of(const std::vector<MeshPlan>& plans, std::size_t most) {
  constexpr double kMilli = 1e3;
  std::string out = " ms/step  communication      memory  mesh\n";
  for (std::size_t i = 0; i < std::min(most, plans.size()); ++i)
    out += fmt::format("{:>8.4g}  {:>13.4g}  {:>10}  {}\n", kMilli * plans[i].cost.seconds,
                       kMilli * plans[i].communication, format_bytes(static_cast<double>(plans[i].cost.peak_bytes)),
                       text_of(plans[i].mesh));
  return out;
}

std::string shardings_of(const MeshPlan& plan) {
  std::size_t width = 0;
  for (const auto& [name, spec] : plan.parameters) width = std::max(width, name.size());
  std::string out;
  for (const auto& [name, spec] : plan.parameters) out += fmt::format("  {:<{}}  {}\n", name, width, spec);
  return out;
}

std::string json_of(const std::vector<MeshPlan>& plans, std::size_t most) {
  std::vector<JsonObject> rows;
  for (std::size_t i = 0; i < std::min(most, plans.size()); ++i) {
    JsonObject& row = rows.emplace_back();
    row.set("mesh", text_of(plans[i].mesh));
    row.set("seconds", plans[i].cost.seconds);
    row.set("communication_seconds", plans[i].communication);
    row.set("received_bytes", plans[i].received);
    row.set("peak_bytes", plans[i].cost.peak_bytes);
    JsonObject shardings;
    for (const auto& [name, spec] : plans[i].parameters) shardings.set(name.substr(1, name.find(' ') - 1), spec);
    row.set("parameters", shardings);
  }
  JsonObject out;
  out.set("meshes", rows);
  return out.str();
}

bool has_annotations(const Program& program) {
  return std::any_of(program.computations.begin(), program.computations.end(), [](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(),
                       [](const Instruction& instruction) { return instruction.sharding != nullptr; });
  });
}

// The mesh of the annotations is one of those that are compared.
std::vector<Mesh> meshes_of(const Program& program, const Arguments& arguments) {
  const std::int64_t devices = devices_of(arguments, std::max<std::int64_t>(1, program.num_partitions));
  const bool is_annotated = has_annotations(program);
  require(!is_annotated || devices == program.num_partitions,
          "{} has shardings for {} devices, --devices is {}: give the program without shardings, or --devices {}",
          program.name, program.num_partitions, devices, program.num_partitions);
  std::vector<Mesh> out;
  add_meshes(devices, 2, static_cast<std::size_t>(arguments.number_or("axes", 2)), {}, out);
  if (out.empty()) throw UsageError("--devices must be at least 2 for a program");
  if (is_annotated)
    for (const Mesh& mesh : program.meshes)
      if (std::find(out.begin(), out.end(), mesh) == out.end()) out.push_back(mesh);
  return out;
}

std::optional<AcceleratorSlice> slice_of(const Arguments& arguments) {
  return AcceleratorSlice::parse(arguments.value_or("devices", ""));
}

}  // namespace

ValueCheck device_count_or_slice() {
  return [number = integer_in_range(1, kMostDevices)](std::string_view option, const std::string& value) {
    if (AcceleratorSlice::parse(value)) return;
    const bool is_name = value.find_first_of("vV") != std::string::npos;
    require(!is_name, "{} {}: no such slice of TPUs; their names are {}", option, value,
            AcceleratorSlice::name_forms());
    number(option, value);
  };
}

std::int64_t devices_of(const Arguments& arguments, std::int64_t otherwise) {
  const auto slice = slice_of(arguments);
  return slice ? slice->devices : arguments.number_or("devices", otherwise);
}

std::string slice_note(const Arguments& arguments) {
  const auto slice = slice_of(arguments);
  return slice ? fmt::format(" ({})", slice->str()) : "";
}

int plan_program(const std::string& text, const Arguments& arguments) {
  ParseOptions how;
  how.file_name = arguments.input() == "-" ? "<stdin>" : arguments.input();
  const Program program = parse_program(text, op_table(), how);
  fmt::print(stderr, "{}", elided_constants_warning(program));
  PartitionOptions options;
  options.machine = machine_of(arguments).value_or(MachineModel());
  options.writes_dumps = false;
  const auto memory = arguments.value("memory");
  options.automatic = {memory ? std::optional(parse_bytes(*memory, "--memory")) : options.machine.memory_bytes()};
  require(!program.partitioned, "{} is a per-device program; give the global program that it comes from", program.name);
  const std::vector<Mesh> meshes = meshes_of(program, arguments);
  std::vector<MeshPlan> plans;
  std::string reason;
  for (const Mesh& mesh : meshes) {
    try {
      plans.push_back(plan_of(program, mesh, options));
    } catch (const DoesNotFit& error) {
      reason = error.what();
    }
  }
  if (plans.empty()) {
    fmt::print(stderr, "tessera plan: {}\n", reason);
    return kCheckFailed;
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const MeshPlan& a, const MeshPlan& b) { return a.cost.seconds < b.cost.seconds; });
  const auto shown = static_cast<std::size_t>(arguments.number_or("top", kShownMeshes));
  if (const auto json = arguments.value("json")) write_text(*json, json_of(plans, shown));
  if (arguments.value_or("json", "") == "-") return kGood;
  const MeshPlan& best = plans.front();
  write_standard_output(
      fmt::format("{} of {} meshes of {} devices{}, machine {}\n{}\nthe best one: tessera partition {} --auto --mesh "
                  "{}{}\nwith these "
                  "shardings of the parameters:\n{}",
                  plans.size(), meshes.size(), meshes.front().device_count(), slice_note(arguments),
                  options.machine.name(), table_of(plans, shown), arguments.input(), text_of(best.mesh),
                  arguments.has("machine") ? " --machine " + *arguments.value("machine") : "", shardings_of(best)));
  return kGood;
}

}  // namespace tessera::command

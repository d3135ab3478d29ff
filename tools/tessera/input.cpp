// SPDX-License-Identifier: Apache-2.0
#include "input.h"

#include <fmt/format.h>

#include <algorithm>

#include <cstdio>
#include <limits>
#include <set>

#include "on_mesh.h"
#include "tessera/base/files.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/text.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ir/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elided_constants.h"
#include "tessera/ops/op_table.h"
#include "tessera/sharding/mesh_text.h"

namespace tessera::command {
namespace {

// If the text is valid for another number of ranks only, the error mentions this number.
Program parse_for_job(const std::string& text, const ParseOptions& options, std::int64_t ranks) {
  try {
    return parse_program(text, op_table(), options);
  } catch (const Error&) {
    if (ranks == 0) throw;
    std::int64_t own = 1;
    bool is_partitioned = false;
    try {
      const Program program = parse_program(text, op_table(), {.file_name = options.file_name});
      own = program.num_partitions;
      is_partitioned = program.partitioned;
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): invalid for any number of ranks
    }
    require(own == 1 || own == ranks,
            "{} is for {} partitions, but this job has {} rank{}; start it with mpirun -np {}, or give --virtual-ranks "
            "{}{}",
            options.file_name, own, ranks, ranks == 1 ? "" : "s", own, own,
            is_partitioned ? "" : ", or give --engine reference, which needs one rank");
    throw;
  }
}

// Each annotation is `NAME=data+fsdp,-,model`. Annotations override the text, but must not contradict each other.
Program with_annotations(const Program& program, const std::vector<std::string>& annotations) {
  require(annotations.empty() || !program.meshes.empty(), "--annotate needs a mesh, such as --mesh data=2,model=2");
  const auto name_of = [](const std::string& text) { return text.substr(0, text.find('=')); };
  Program out = program;
  for (const auto& text : annotations) out = without_annotation(out, name_of(text));
  for (const auto& text : annotations)
    out = annotate(out, out.meshes.front(), name_of(text), text.substr(text.find('=') + 1));
  return out;
}

}  // namespace

ValueCheck device_number() { return integer_in_range(1, std::int64_t{1} << 20); }

ValueCheck mesh_text() {
  return [](std::string_view, const std::string& value) { (void)mesh_axes(value); };
}

ValueCheck machine_name() {
  return [](std::string_view, const std::string& value) { MachineModel::check_name(value); };
}

namespace {

// Checks names of axes that are joined by commas.
ValueCheck axis_names() {
  return [](std::string_view, const std::string& value) {
    for (const std::string& name : split(value, ',')) (void)Mesh({{name, 1}});
  };
}

}  // namespace

std::vector<Option> sharding_options() {
  return {
      {"num-partitions", "N", "the number of devices; default: the size of the mesh, or the number in the module",
       device_number()},
      {"mesh", "AXIS=SIZE,..",
       "the mesh, such as data=2,model=4; one size may be -1, which stands for all remaining devices", mesh_text()},
      repeated({"annotate", "NAME=SPEC",
                "annotate a value with a spec, which has one entry for each dim: w=data+fsdp,-,model; may be repeated; "
                "NAME is a parameter or value of the entry computation, or computation/value; `?` after an entry "
                "leaves the dim open; NAME@p1=SPEC gives all dims priority 1, and the spec data@p1,- gives it to one "
                "dim (default: priority 0); the option replaces an annotation of this value in the text",
                [](std::string_view option, const std::string& value) {
                  const auto equals = value.find('=');
                  require(equals != std::string::npos && equals > 0, "{} takes NAME=data,-,model, got \"{}\"", option,
                          value);
                }}),
      {"open-results", "",
       "propagation chooses the shardings of results without an annotation; "
       "default: fully replicated"},
      {"open-parameters", "",
       "propagation chooses the shardings of parameters without an annotation; default: fully replicated"}};
}

void check_sharding_options(const Arguments& arguments, std::int64_t ranks) {
  const auto mesh = arguments.value("mesh");
  const std::int64_t devices = arguments.number_or("num-partitions", ranks);
  if (!mesh || devices < 0) return;
  read_option("--mesh", [&] { (void)Mesh::parse(*mesh, devices); });
}

int virtual_ranks(const Arguments& arguments) {
  const auto given = static_cast<int>(arguments.number_or("virtual-ranks", 0));
  return read_option("--virtual-ranks", [&] { return virtual_rank_count("--virtual-ranks", given); });
}

std::vector<Option> pass_options() {
  return {
      repeated({"disable-passes", "NAME,..", "skip these passes, such as combine-collectives"}),
      {"async", "", "divide collectives that have computation after them into a start and a done op"},
      repeated({"bf16-axes", "AXIS,..", "collectives over these axes carry f32 as bf16: half the bytes, rounded",
                axis_names()}),
      repeated({"int8-axes", "AXIS,..",
                "collectives over these axes carry f32 as int8, with one scale for 256 numbers: a quarter of the bytes",
                axis_names()}),
      {"memory-bound", "BYTES", "the most bytes that one combined collective carries; default: 30 MiB",
       integer_in_range(0)}};
}

void read_pass_options(const Arguments& arguments, std::vector<std::string>& skip, CollectivePassOptions& options) {
  for (const auto& list : arguments.values("disable-passes"))
    for (std::string& name : split(list, ',')) skip.push_back(std::move(name));
  for (const auto& list : arguments.values("bf16-axes"))
    for (std::string& name : split(list, ',')) options.bf16_axes.push_back(std::move(name));
  for (const auto& list : arguments.values("int8-axes"))
    for (std::string& name : split(list, ',')) options.int8_axes.push_back(std::move(name));
  read_option("--int8-axes", [&] { check_compressed_axes(options); });
  options.make_asynchronous = arguments.has("async");
  options.memory_bound = arguments.number_or("memory-bound", options.memory_bound);
}

Option machine_option() {
  return {"machine", "FILE|PRESET",
          "the machine for which the partitioner minimizes the modelled time: a profile of `tessera calibrate`, or "
          "uniform (default), cpu-node or tpu-v4",
          machine_name()};
}

std::optional<MachineModel> machine_of(const Arguments& arguments) {
  const auto machine = arguments.value("machine");
  const auto links = arguments.value("topology");
  if (!machine && !links) return std::nullopt;
  MachineModel out = machine ? read_option("--machine", [&] { return MachineModel::load(*machine); }) : MachineModel();
  if (links) out.set_links(read_option("--topology", [&] { return Topology::from_file(*links); }));
  return out;
}

std::vector<Option> how_to_partition_options() {
  auto out = pass_options();
  out.push_back(
      {"fewer-collectives", "", "passes may remove collectives even if a device then needs more memory or work"});
  out.push_back({"auto", "",
                 "choose the shardings of all values without annotation, parameters and results included: those with "
                 "the least modelled time on the machine"});
  out.push_back({"memory", "SIZE",
                 "with --auto: the memory of a device, as in 16GB; default: that of the machine, or no limit",
                 byte_count()});
  out.push_back(machine_option());
  out.push_back({"topology", "FILE",
                 "the links of the mesh axes, as JSON: their latency and bandwidth; they replace those of the machine, "
                 "and reshard plans then minimize modelled time"});
  return out;
}

PartitionOptions how_to_partition(const Arguments& arguments) {
  PartitionOptions options;
  options.machine = machine_of(arguments).value_or(MachineModel());
  read_pass_options(arguments, options.skip_passes, options.collectives);
  options.collectives.save_memory = !arguments.has("fewer-collectives");
  const auto memory = arguments.value("memory");
  if (memory && !arguments.has("auto")) throw UsageError("--memory needs --auto");
  if (arguments.has("auto"))
    options.automatic = {memory ? std::optional(parse_bytes(*memory, "--memory")) : options.machine.memory_bytes()};
  return options;
}

namespace {

// A mesh of two devices with the axes over which collectives are compressed: the passes depend on them.
Mesh mesh_of_compressed_axes(const Arguments& arguments) {
  std::set<std::string> names;
  for (const char* option : {"bf16-axes", "int8-axes"})
    for (const auto& list : arguments.values(option))
      for (std::string& name : split(list, ',')) names.insert(std::move(name));
  std::vector<MeshAxis> axes;
  for (const std::string& name : names) axes.push_back({name, axes.empty() ? 2 : 1});
  return Mesh(axes);
}

}  // namespace

void check_skipped_passes(const Arguments& arguments, const std::function<void(const Program&)>& run) {
  if (!arguments.has("disable-passes")) return;
  ParseOptions options;
  if (arguments.has("bf16-axes") || arguments.has("int8-axes")) options.meshes = {mesh_of_compressed_axes(arguments)};
  const Program small =
      parse_program("HloModule small, num_partitions=2\nENTRY e { ROOT x = f32[] constant(0) }", op_table(), options);
  read_option("--disable-passes", [&] { run(small); });
}

void check_skipped_passes(const Arguments& arguments, const PartitionOptions& options) {
  check_skipped_passes(arguments, [&](const Program& small) {
    PartitionOptions own = options;
    own.machine = {};
    own.writes_dumps = false;
    (void)partition(small, own);
  });
}

std::string read_input(const Arguments& arguments) {
  if (arguments.input() != "-") return read_file(arguments.input());
  std::string text;
  char block[1 << 16];
  while (const std::size_t size = std::fread(block, 1, sizeof block, stdin)) text.append(block, size);
  return text;
}

Program read_program(const Arguments& arguments) {
  check_sharding_options(arguments, 0);
  return program_of(read_input(arguments), arguments);
}

Program program_of(const std::string& text, const Arguments& arguments, const Reader& reader) {
  const std::int64_t partitions = reader.partitions;
  ParseOptions options;
  options.file_name = arguments.input() == "-" ? "<stdin>" : arguments.input();
  options.num_partitions = arguments.number_or("num-partitions", partitions);
  require(partitions == 0 || options.num_partitions == partitions,
          "--num-partitions {} does not match this job of {} rank{}", options.num_partitions, partitions,
          partitions == 1 ? "" : "s");
  if (const auto mesh = arguments.value("mesh")) {
    try {
      options.meshes = {Mesh::parse(*mesh, options.num_partitions)};
    } catch (Error& error) {
      if (partitions > 0) error.note("  mpirun -np N and --virtual-ranks N create N ranks");
      throw;
    }
    options.num_partitions = options.meshes.front().device_count();
  }
  Program program = parse_for_job(text, options, partitions);
  if (!options.meshes.empty() && !program.partitioned) {
    program = on_mesh(program, options.meshes.front());
    if (reader.says_notes) fmt::print(stderr, "{}", other_mesh_note(program, options.meshes.front()));
  }
  if (arguments.has("open-results")) program.propagate_to_output = {true};
  if (arguments.has("open-parameters")) program.propagate_to_parameters = {true};
  Program annotated = with_annotations(program, arguments.values("annotate"));
  if (reader.says_notes)
    for (const auto& replaced : replaced_annotations(program, annotated))
      fmt::print(stderr, "note: --annotate replaces the sharding of the text: {}\n", replaced);
  return annotated;
}

std::string nothing_sharded_note(const Program& program) {
  const auto shards = [](const Instruction& instruction) {
    const auto is_sharded = [](const Sharding& one) { return !one.is_replicated(); };
    if (is_sharding_mark(instruction) || manual_border(instruction) != ManualBorder::kNone) return true;
    return instruction.sharding && std::any_of(instruction.sharding->begin(), instruction.sharding->end(), is_sharded);
  };
  const auto holds_one = [&](const auto& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(), shards);
  };
  if (program.partitioned || program.num_partitions == 1 ||
      std::any_of(program.computations.begin(), program.computations.end(), holds_one))
    return "";
  return fmt::format(
      "note: nothing is sharded: each of the {} devices computes the complete program; --annotate NAME=AXES,.. shards "
      "a value\n",
      program.num_partitions);
}

std::string unused_axes_note(const Program& program) {
  if (program.meshes.empty() || program.partitioned || !nothing_sharded_note(program).empty()) return "";
  const Mesh& mesh = program.meshes.front();
  std::set<int> unused;
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    if (mesh.axes()[static_cast<std::size_t>(axis)].size > 1) unused.insert(axis);
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions) {
      if (manual_border(instruction) != ManualBorder::kNone) return "";
      if (!instruction.sharding) continue;
      for (const Sharding& sharding : *instruction.sharding) {
        if (!sharding.is_tiled() || (!sharding.used_axes().empty() && sharding.mesh != mesh)) return "";
        for (const AxisRef& axis : sharding.used_axes()) unused.erase(axis.axis);
      }
    }
  std::vector<std::string> names;
  for (const int axis : unused) names.push_back(mesh.axes()[static_cast<std::size_t>(axis)].name);
  if (names.empty()) return "";
  return fmt::format("note: nothing is sharded over {} of {}: devices along {} do the same work\n",
                     fmt::join(names, ", "), mesh.str(), names.size() == 1 ? "it" : "them");
}

std::string elided_constants_warning(const Program& program) {
  if (!has_elided_constants(program)) return "";
  return fmt::format(
      "warning: the text of {} leaves out the elements of constants, {{...}}: {}; those that remain stay elided, and "
      "`tessera run` "
      "needs all of them (docs/guide.md says how to dump them)\n",
      program.name, elided_constants_text(program));
}

void write_text(const std::string& path, std::string_view text) {
  if (path != "-") return write_file(path, text);
  write_standard_output(text);
}

Option as_written_option() {
  return {"as-written", "",
          "the statistics describe the program before lowering, as if the ranks of a node shared no memory; useful to "
          "compare partitioners"};
}

ProgramStats stats_of(const Program& program, const Arguments& arguments) {
  return arguments.has("as-written") ? program_stats(program) : execution_stats(program);
}

namespace {

// A sum that does not fit in 64 bits is the largest number instead.
bool is_exact(std::int64_t sum) { return sum < std::numeric_limits<std::int64_t>::max(); }

std::string sum_text(std::int64_t sum) { return is_exact(sum) ? std::to_string(sum) : fmt::format("at least {}", sum); }

void set_sum(JsonObject& object, const std::string& key, std::int64_t sum) {
  object.set(key, sum);
  if (!is_exact(sum)) object.set(key + "_exact", false);
}

}  // namespace

JsonObject stats_json(const ProgramStats& stats) {
  JsonObject collectives;
  for (const auto& kind : stats.collectives) {
    JsonObject one;
    one.set("count", kind.count);
    set_sum(one, "bytes", kind.bytes);
    if (kind.runs != static_cast<double>(kind.count)) one.set("runs", kind.runs);
    if (!kind.runs_known) one.set("runs_known", kind.runs_known);
    collectives.set(kind.opcode, one);
  }
  JsonObject out;
  out.set("num_partitions", stats.num_partitions);
  out.set("collectives", collectives);
  set_sum(out, "total_collective_bytes", stats.total_collective_bytes);
  out.set("flops_per_device", stats.flops_per_device);
  set_sum(out, "peak_bytes_per_device", stats.peak_bytes_per_device);
  return out;
}

namespace {

// The bytes count all iterations of the enclosing loops. Adds a note if an instruction runs more than once.
std::string runs_text(const ProgramStats::Kind& kind) {
  std::string out;
  constexpr double kMostExact = 1e15;  // a double holds all integers up to 2^53
  if (kind.runs > kMostExact)
    out += fmt::format("  run about {:.3g} times", kind.runs);
  else if (kind.runs != static_cast<double>(kind.count))
    out += fmt::format("  run {:.0f} times", kind.runs);
  if (!kind.runs_known) out += "  in loops of unknown rounds, counted as one round";
  return out;
}

}  // namespace

std::string stats_text(const ProgramStats& stats) {
  std::string out = fmt::format("num_partitions          {}\n", stats.num_partitions);
  out += stats.collectives.empty() ? "collectives             none\n" : "collectives             count       bytes\n";
  for (const auto& kind : stats.collectives)
    out += fmt::format("  {:<22}{:>5} {:>11}{}\n", kind.opcode, kind.count, sum_text(kind.bytes), runs_text(kind));
  out += fmt::format("total_collective_bytes  {}\n", sum_text(stats.total_collective_bytes));
  out += fmt::format("flops_per_device        {:.0f}\n", stats.flops_per_device);
  return out + fmt::format("peak_bytes_per_device   {}\n", sum_text(stats.peak_bytes_per_device));
}

}  // namespace tessera::command

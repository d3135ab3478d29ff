// SPDX-License-Identifier: Apache-2.0
#include "input.h"
#include "tessera/ir/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/passes/passes.h"

namespace tessera::command {
namespace {

// A per-device program of XLA has shardings only on parameters, copies and the root.
bool is_to_be_partitioned(const Computation& computation, Id id) {
  const Instruction& instruction = computation[id];
  if (is_sharding_mark(instruction) || manual_border(instruction) != ManualBorder::kNone) return true;
  const Role role = instruction.op->role;
  return instruction.sharding != nullptr && role != Role::kParameter && role != Role::kCopy && id != computation.root;
}

void require_partitioned(const Program& program) {
  if (program.partitioned) return;
  for (const auto& computation : program.computations)
    for (Id id = 0; id < computation->size(); ++id)
      require(!is_to_be_partitioned(*computation, id),
              "this is a global program (%{} of {} has a sharding); run `tessera partition` first",
              (*computation)[id].name, computation->name);
}

int run(const Arguments& arguments) {
  std::vector<std::string> skip;
  CollectivePassOptions options;
  read_pass_options(arguments, skip, options);
  check_skipped_passes(arguments, [&](const Program& small) { (void)optimize_collectives(small, options, skip); });
  const MachineModel machine = machine_of(arguments).value_or(MachineModel());
  const Program program = with_groups_of_devices(read_program(arguments));
  verify(program);
  require_partitioned(program);
  fmt::print(stderr, "{}", elided_constants_warning(program));
  const bool may_be_global =
      !program.partitioned && program.num_partitions > 1 && program_stats(program).collectives.empty();
  if (may_be_global)
    fmt::print(stderr,
               "note: {} has no collective to improve; if it is a global program, run `tessera partition` first\n",
               program.name);
  machine.links().check(program.meshes);
  Program out = optimize_collectives(program, options, skip, nullptr, machine);
  out.partitioned = !may_be_global;  // for `run`, even if the text has no mark
  const bool for_xla = arguments.has("for-xla");
  write_text(arguments.value_or("o", "-"), print_program(for_xla ? in_ops_of_hlo(out) : out, {.for_xla = for_xla}));
  if (const auto path = arguments.value("json")) write_text(*path, stats_json(stats_of(out, arguments)).str());
  return kGood;
}

std::vector<Option> options() {
  std::vector<Option> out = {
      {"num-partitions", "N", "an error if the module is for another number of devices", device_number()}};
  for (const Option& option : pass_options()) out.push_back(option);
  out.push_back(machine_option());
  out.push_back({"topology", "FILE",
                 "the links of the mesh axes, as JSON: their latency and bandwidth; they replace those of the machine, "
                 "and collective matmul then minimizes modelled time"});
  out.push_back({"o", "OUT.hlo", "the output; default: standard output", {}, true});
  out.push_back({"for-xla", "", "omit the attributes that XLA does not accept, so that XLA can read the output"});
  out.push_back({"json", "FILE", "write the statistics of the output as JSON", {}, true});
  out.push_back(as_written_option());
  return out;
}

}  // namespace

const Verb kOptimize = {"optimize", "improves the collectives of a per-device program",
                        "Accepts any per-device program, also one from XLA. Runs the collective passes of `tessera "
                        "partition`, which simplify,\n"
                        "merge and combine collectives, and move them out of loops. They do not change results, except "
                        "that floats may be added\n"
                        "in another order, and never increase the bytes received.",
                        options(), run};

}  // namespace tessera::command

// SPDX-License-Identifier: Apache-2.0
#include "input.h"

namespace tessera::command {
namespace {

int run(const Arguments& arguments) {
  const auto machine = machine_of(arguments);
  const Program program = read_program(arguments);
  fmt::print(stderr, "{}", elided_constants_warning(program));
  const ProgramStats stats = stats_of(program, arguments);
  if (!program.partitioned && stats.num_partitions > 1 && stats.collectives.empty())
    fmt::print(stderr,
               "note: {} has no collective and no mark of a partitioner; if it is a global program, these are the "
               "counts of one device that computes all of it: run `tessera partition` first\n",
               program.name);
  std::string text = stats_text(stats);
  JsonObject json = stats_json(stats);
  if (machine) {
    constexpr double kMilliseconds = 1e3;
    const double time = kMilliseconds * modelled_seconds(program, *machine);
    text += fmt::format("{:.6g} ms modelled on {}\n", time, machine->name());
    json.set("modelled_milliseconds", time);
  }
  const auto path = arguments.value("json");
  if (path != "-") write_text("-", text);
  if (path) write_text(*path, json.str());
  return kGood;
}

}  // namespace

const Verb kStats = {
    "stats",
    "counts the collectives, FLOPs and memory of a per-device program",
    "Accepts any per-device program, also one from XLA. Bytes are those that one device receives in a group of g "
    "devices:\n"
    "all-gather (g-1)/g of the result, reduce-scatter and all-to-all (g-1)/g of the operand, all-reduce 2(g-1)/g of "
    "the\n"
    "operand, permute the operand; in a loop, times its rounds if they are known. The counts are those of the program "
    "after\n"
    "lowering and scheduling, for ranks on one node, or on the nodes that TESSERA_NODE lists. Memory is that of "
    "arguments,\n"
    "results, constants and intermediate values; kernels may need a workspace in addition.",
    {{"num-partitions", "N", "an error if the module is for another number of devices", device_number()},
     {"json", "FILE", "write the counts as JSON; - is standard output, instead of the table", {}, true},
     as_written_option(),
     {"machine", "FILE|PRESET",
      "also print the modelled time of a run on this machine: a profile of `tessera calibrate`, or uniform, cpu-node "
      "or tpu-v4",
      machine_name()}},
    run};

}  // namespace tessera::command
